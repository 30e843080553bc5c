"""What verbs say, as values: outcomes, progress, hints, quantities. Nothing here prints."""
