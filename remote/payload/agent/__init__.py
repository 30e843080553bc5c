"""The agent: the process that answers requests, how it ends, and the housekeeping after a payload was installed."""
