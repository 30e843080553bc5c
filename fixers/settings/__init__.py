"""Fixers of what starts training: settings in YAML and JSON, and the words of commands."""
