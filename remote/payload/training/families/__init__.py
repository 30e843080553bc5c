"""The model families that the built-in trainer supports: one module each, with a small random checkpoint for tests."""
