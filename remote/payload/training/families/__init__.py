"""The model families that the built-in trainer supports.

Each family is a module, and has a small random checkpoint for tests.
"""
