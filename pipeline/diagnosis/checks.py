"""Every check of verify and of the watch, as data: checks.json beside this file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("checks.json")


@dataclass(frozen=True)
class Check:
    """One row of verify or of the watch. `depths`: static, card, proof, watch."""

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
    """Every check that can be told."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(Check(**{**row, "depths": tuple(row["depths"]), "cures": tuple(row["cures"])}) for row in rows)


def find_check(name: str) -> Check | None:
    """The check of that name."""
    return next((check for check in load_checks() if check.name == name), None)
