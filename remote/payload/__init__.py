"""The payload: the zip that runs on the GPU host. It needs only Python 3.9; training/ and the hooks also need torch."""
