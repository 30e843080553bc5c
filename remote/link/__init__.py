"""Connections to a host: its address, the transport (SSH, local, container), and the agent on the host."""
