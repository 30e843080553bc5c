"""Decisions that need no host: which precision a card trains in, and what each card can do."""
