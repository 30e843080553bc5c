"""Fixers of the host: installed packages, files and GPU processes."""
