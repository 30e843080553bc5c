"""Identify, start and end processes of this machine."""
