"""Write a config as a task for an engine that rents machines: SkyPilot or dstack."""
