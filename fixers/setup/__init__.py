"""Fixers of a host: what is installed on it, what lies on it, and what runs on its cards."""
