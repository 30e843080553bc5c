"""What a run writes: its output and its event files, read or followed."""
