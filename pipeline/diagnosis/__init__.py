"""A name for every failure: what a log says, why, what puts it right, and which advice does not."""
