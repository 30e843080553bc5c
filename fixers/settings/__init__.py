"""Fixers of settings in YAML and JSON, and of commands."""
