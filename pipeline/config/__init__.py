"""Configs: YAML parsed into frozen models, with all problems reported at once."""
