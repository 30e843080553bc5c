"""The model families that the built-in trainer supports. Each is a module, with a small random checkpoint for tests."""
