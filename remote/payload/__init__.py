"""The payload: the zip that runs on the GPU host. Standard library only, Python 3.9, except training/ and the hooks."""
