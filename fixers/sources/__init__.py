"""Parsers that keep byte positions, and edits of byte ranges."""
