"""Send a project's files to a host: the differences as one stream, resumed after a lost connection."""
