"""The survey: the host, its tree and its runs in one answer."""
