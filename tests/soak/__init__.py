"""Fault testing with seeded random kills: `python -m tests.soak`, or `make soak`."""
