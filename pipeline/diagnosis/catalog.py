"""The catalog of known failures (catalog.json), each with samples and sources."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path

from pipeline.diagnosis.needles import needles_of
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Severity

FILE = Path(__file__).with_name("catalog.json")


@dataclass(frozen=True)
class Entry:
    """One known failure.

    If two entries match a line, the earlier entry in the catalog is used. `cures` are the names of the cures that `run`
    may apply, in order: `fixer:NAME`, `config:NAME` (see cures.py) or `retry`. `repeats` is the minimum number of
    matching lines; with fewer lines, the failure is not reported. `consequence`: the failure is usually the result of
    another failure, which is reported first. `is_state`: the failure lasts for the whole training, even if later lines
    look healthy. `named`: the first group of the pattern that matches is a name, such as the name of a module, which is
    shown with the cause.
    """

    id: str
    stage: str
    severity: Severity
    pattern: re.Pattern[str]
    cause: str
    fix: str
    folk_wrong: str
    sources: tuple[str, ...]
    samples: tuple[str, ...]
    cures: tuple[str, ...] = ()
    repeats: int = 1
    consequence: bool = False
    is_state: bool = False
    named: bool = False

    def name_in(self, line: str) -> str:
        """Return the package or file name that a matching line contains, or "" if the entry has no names."""
        match = self.pattern.search(line) if self.named else None
        return next(filter(None, match.groups()), "") if match is not None else ""

    @cached_property
    def needles(self) -> tuple[str, ...]:
        """Words for a fast search: every matching line contains one of these words. () if there are no such words."""
        return needles_of(self.pattern.pattern)


@cache
def load_catalog() -> tuple[Entry, ...]:
    """Return all entries, in the order in which they are matched."""
    return tuple(_entry(row) for row in json.loads(FILE.read_text(encoding="utf-8")))


def _entry(row: dict[str, object]) -> Entry:
    return Entry(
        id=_text(row["id"]),
        stage=_text(row["stage"]),
        severity=Severity(row["severity"]),
        pattern=re.compile(_text(row["regex"])),
        cause=_text(row["cause"]),
        fix=_text(row["fix"]),
        folk_wrong=_text(row["folk_wrong"]),
        sources=_texts(row["sources"]),
        samples=_texts(row["samples"]),
        cures=_texts(row.get("cures", [])),
        repeats=int(_text(str(row.get("repeats", 1)))),
        consequence=row.get("consequence", False) is True,
        is_state=row.get("is_state", False) is True,
        named=row.get("named", False) is True,
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{FILE.name}: expected text, got {value!r}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"{FILE.name}: expected a list, got {value!r}")
    return tuple(_text(item) for item in value)


def find_entry(name: str) -> Entry | None:
    """Return the entry with the id `name`, or None if there is no such entry."""
    return next((entry for entry in load_catalog() if entry.id == name), None)


def identify(line: str, entries: Sequence[Entry] | None = None) -> Entry | None:
    """Return the first entry that matches the line, or None if no entry matches."""
    known = load_catalog() if entries is None else entries
    return next((entry for entry in known if entry.pattern.search(line)), None)
