"""What a run made of its model: trainer checkpoints and the adapter, never believed unproved."""
