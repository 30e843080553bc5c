"""A line to a host: its address, the connection (SSH, local, container), and the agent at its other end."""
