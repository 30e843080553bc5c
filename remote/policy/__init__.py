"""Decisions without a host: the precision that a card trains in, and what each card supports."""
