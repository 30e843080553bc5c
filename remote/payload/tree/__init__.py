"""The project's files and large data on the host: receive them, change them atomically, copy them for a run."""
