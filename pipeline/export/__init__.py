"""Writes a config as a task for an engine that starts machines: SkyPilot or dstack."""
