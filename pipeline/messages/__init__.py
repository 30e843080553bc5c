"""The values that verbs report: outcomes, progress, findings, and hints."""
