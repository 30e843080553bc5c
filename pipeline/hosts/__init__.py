"""Dealings with a named host: the connection, a run that lies there, following its job, pulling what it made."""
