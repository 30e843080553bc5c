"""The list of fixers that is read without importing any of them is the list of fixers."""

from __future__ import annotations

from fixers.known import ASKED_FOR, KNOWN
from fixers.registry import SETUP_FIXERS, SOURCE_FIXERS


def test_every_fixer_is_known_in_the_order_in_which_it_acts() -> None:
    assert tuple(KNOWN) == tuple(fixer.name for fixer in (*SOURCE_FIXERS, *SETUP_FIXERS))


def test_only_known_fixers_are_asked_for() -> None:
    assert set(ASKED_FOR) <= set(KNOWN)
