"""What a run writes: its log and its event files, as they lie and as they come."""
