"""What verbs report, as values: outcomes, progress, errors as findings, commands in hints."""
