"""Atomic files, locks, and operations on single files."""
