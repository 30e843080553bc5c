"""Fixers of Python files and notebooks."""
