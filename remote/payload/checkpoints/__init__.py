"""The models that a run saves: trainer checkpoints and the adapter."""
