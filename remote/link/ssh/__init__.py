"""SSH: what ~/.ssh/config means, which host keys are trusted, and one connection that is reused."""
