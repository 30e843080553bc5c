"""The project's files and large data on the host: receiving them, changing them atomically, copying them for a run."""
