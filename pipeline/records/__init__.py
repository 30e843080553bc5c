"""The records of a project in .halfstep/ (stage checkpoints, cures, runs), and the user's confirmations."""
