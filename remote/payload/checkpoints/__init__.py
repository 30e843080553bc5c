"""The models that a run saves: trainer checkpoints and the adapter. They are verified before use."""
