"""The agent: the process that answers requests, its end, and the housekeeping after an installation."""
