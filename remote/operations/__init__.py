"""Typed functions that call the payload's operations: surveys, jobs, proofs, and the inspection of a host."""
