"""Typed calls of what the payload offers: surveys, jobs, proofs, and the inspection of a host."""
