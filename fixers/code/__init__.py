"""Fixers of Python files and notebooks, and the forms of code that they know."""
