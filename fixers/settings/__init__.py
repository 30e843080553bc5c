"""Fixers of settings files and of commands."""
