"""Values and frames exchanged by laptop and payload: standard library only, Python 3.9 and newer."""
