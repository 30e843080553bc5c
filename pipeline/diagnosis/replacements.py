"""What to write instead of a name that a library removed. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fixers.sources.removed_names import (
    HOOKS,
    IN_HOOK,
    TRAINER_ARGUMENTS,
    gone_called,
    instead_of_argument,
    strategy_instead_of,
)

REMOVED_NAME, LIGHTNING = "api-removed-name", "api-lightning"
"""The entries of the catalog whose names have replacements."""


def replacements(check: str, names: Iterable[str]) -> str:
    """Return a sentence with the replacement of each name of this catalog entry, or "" if there are none."""
    if check not in (REMOVED_NAME, LIGHTNING):
        return ""
    found = ((name, _lightning(name) if check == LIGHTNING else _removed(name)) for name in names)
    return " ".join(f"Instead of {name}: {words}." for name, words in found if words)


def _removed(name: str) -> str:
    gone = gone_called(name)
    return gone.instead if gone is not None else ""


def _lightning(name: str) -> str:
    if name in TRAINER_ARGUMENTS:
        return instead_of_argument(name)
    if name in HOOKS:
        return IN_HOOK.format(HOOKS[name])
    return strategy_instead_of(name)
