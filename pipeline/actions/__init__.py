"""What the long verbs do: `run` and its healing, the preview of `verify` and `plan`, `fix` on a host."""
