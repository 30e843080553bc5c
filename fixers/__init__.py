"""Fixers: each detects one fault of a project or a host and plans the smallest change that repairs it."""
