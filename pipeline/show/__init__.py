"""Everything that reaches a terminal: the one place that prints."""
