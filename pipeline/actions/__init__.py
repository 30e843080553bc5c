"""The implementation of the longer verbs: `run` and its cures, the preview of `verify` and `plan`, `fix` on a host."""
