"""The project's files on the host: received, changed as one, copied to work in; and its large data."""
