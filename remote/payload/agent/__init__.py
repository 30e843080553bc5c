"""The answerer itself: its line, its end, and what is done once it has come to a host."""
