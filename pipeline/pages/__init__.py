"""The documentation page of every name: stages, fixers, checks, failures, cures, findings."""
