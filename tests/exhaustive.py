"""Which tests `make test` leaves out: the lines of exhaustive.txt and sweeps.txt. CI runs what sweeps.txt lists.

A line is `FILE`, `FILE::TEST`, or `FILE::TEST keeps ID, ID`: all rows of that parametrized test except these are
left out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TABLES = {"exhaustive": ROOT / "tests/exhaustive.txt", "sweep": ROOT / "tests/sweeps.txt"}
"""The lines, by the marker that their tests get."""
DEADLINE_S = 1800.0
"""The deadline of an exhaustive test that sets none itself: a sweep of two minutes takes ten on a loaded machine."""


@dataclass(frozen=True)
class Sweep:
    """One line: a file, a test of it or "" for every test, and the rows that `make test` keeps."""

    file: str
    test: str = ""
    keeps: frozenset[str] = frozenset()

    def covers(self, file: str, test: str) -> bool:
        return self.file == file and self.test in {"", test}


def parse_sweeps(text: str) -> tuple[Sweep, ...]:
    """Raises ValueError for a line of another form."""
    sweeps = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        found = re.fullmatch(r"(tests/\S+?\.py)(?:::(\w+)(?: +keeps (.+))?)?", line.strip())
        if found is None:
            raise ValueError(f"{line!r} is not `FILE`, `FILE::TEST` or `FILE::TEST keeps ID, ID`")
        kept = frozenset(word.strip() for word in (found[3] or "").split(",") if word.strip())
        sweeps.append(Sweep(found[1], found[2] or "", kept))
    return tuple(sweeps)


def read_sweeps(marker: str) -> tuple[Sweep, ...]:
    """Return the lines of the table for this marker."""
    return parse_sweeps(TABLES[marker].read_text("utf-8"))


def name_of(item: pytest.Item) -> tuple[str, str, str]:
    """Return the file, the test and the row of a collected item."""
    callspec = getattr(item, "callspec", None)
    test = getattr(item, "originalname", item.name)
    return item.path.relative_to(ROOT).as_posix(), test, callspec.id if callspec else ""


def is_listed(sweeps: Iterable[Sweep], file: str, test: str, row: str) -> bool:
    """Return True if a line lists the test and does not keep this row."""
    covering = [sweep for sweep in sweeps if sweep.covers(file, test)]
    return bool(covering) and not any(row in sweep.keeps for sweep in covering)


def missing_rows(sweeps: Iterable[Sweep], rows: Mapping[tuple[str, str], Collection[str]]) -> tuple[str, ...]:
    """For the tests in `rows`, the kept rows that do not exist."""
    return tuple(
        f"{sweep.file}::{sweep.test} has no row {row!r}"
        for sweep in sweeps
        if (sweep.file, sweep.test) in rows
        for row in sorted(sweep.keeps - set(rows[sweep.file, sweep.test]))
    )


def mark_listed(items: Iterable[pytest.Item]) -> tuple[str, ...]:
    """Mark the items that a line covers; return the kept rows that their tests do not have."""
    tables = {marker: read_sweeps(marker) for marker in TABLES}
    files = {sweep.file for sweeps in tables.values() for sweep in sweeps}
    rows: dict[tuple[str, str], set[str]] = {}
    for item in items:
        if not item.path.is_relative_to(ROOT):
            continue
        file, test, row = name_of(item)
        if file in files:
            rows.setdefault((file, test), set()).add(row)
            for marker, sweeps in tables.items():
                if is_listed(sweeps, file, test, row):
                    _mark(item, marker)
    return tuple(missing for sweeps in tables.values() for missing in missing_rows(sweeps, rows))


def _mark(item: pytest.Item, marker: str) -> None:
    item.add_marker(marker)
    if marker == "exhaustive" and item.get_closest_marker("timeout") is None:
        item.add_marker(pytest.mark.timeout(DEADLINE_S))
