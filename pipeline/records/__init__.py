"""The records of a project in .halfstep/: checkpoints of stages, cures, runs; and confirmations of the user."""
