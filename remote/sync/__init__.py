"""Sending a project's files to a host: what differs, as one stream, resumed where a connection was cut."""
