"""The other machine: how to reach it, what to say to it, and (in payload/) what runs there."""
