"""The host, its tree and its runs in one answer."""
