"""Diagnosis of logs: a catalog of known failures, each with its cause, its fix, cures and wrong advice."""
