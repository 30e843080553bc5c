"""The checks of verify and of the watch (checks.json)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from remote.protocol.dataclass import dataclass

FILE = Path(__file__).with_name("checks.json")


@dataclass(frozen=True)
class Check:
    """One check. `depths` are the phases in which the check runs: static, card, proof, watch."""

    name: str
    depths: tuple[str, ...]
    title: str
    looks: str
    rule: str
    why: str
    fix: str
    cures: tuple[str, ...] = ()


@cache
def load_checks() -> tuple[Check, ...]:
    """Return all checks."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(Check(**{**row, "depths": tuple(row["depths"]), "cures": tuple(row["cures"])}) for row in rows)


def find_check(name: str) -> Check | None:
    """Return the check `name`, or None if there is no such check."""
    return next((check for check in load_checks() if check.name == name), None)
