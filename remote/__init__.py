"""The remote host: connections to it, calls of its agent, and (in payload/) the program that runs on it."""
