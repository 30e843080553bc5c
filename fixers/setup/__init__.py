"""Fixers of a host: installed packages, files and GPU processes."""
