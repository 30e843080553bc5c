"""The values that verbs report: outcomes, progress, findings, and commands in hints."""
