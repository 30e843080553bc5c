"""The command line: the table of verbs, shell completion, and the conversion of errors to exit codes."""
