"""The remote host: connections to it, calls to its agent, and (in payload/) the program that runs on it."""
