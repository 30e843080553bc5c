"""A config as a task of an engine that starts machines: SkyPilot or dstack."""
