"""The output and the event files of a run: read them, or follow them."""
