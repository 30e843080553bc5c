"""Values and frames exchanged by laptop and payload. Standard library only, Python 3.9 and newer."""
