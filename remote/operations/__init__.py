"""Typed calls of the payload's operations: surveys, jobs, proofs, and the inspection of a host."""
