"""The agent: the process that answers requests, its shutdown, and the housekeeping after a payload was installed."""
