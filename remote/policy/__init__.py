"""Decisions that need no host: the precision for a card, and the features of each card."""
