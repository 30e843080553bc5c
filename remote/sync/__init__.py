"""The project's files on their way to the host: what is sent, what is refused, what the host keeps."""
