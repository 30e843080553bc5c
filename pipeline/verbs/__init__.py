"""The commands of `pipeline`, one module each."""
