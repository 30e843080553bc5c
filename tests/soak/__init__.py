"""Random kills of everything a run is made of, seeded: `python -m tests.soak`, or `make soak`."""
