"""What the long verbs do: `run` and its cures, the preview of `verify` and `plan`, `fix` on a host."""
