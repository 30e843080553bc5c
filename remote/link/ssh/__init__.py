"""SSH: resolution of ~/.ssh/config, verification of host keys, and one connection that is reused."""
