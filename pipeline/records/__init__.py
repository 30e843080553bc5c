"""What a project remembers in its `.halfstep/`: checkpoints of stages, cures, runs; each file whole or absent."""
