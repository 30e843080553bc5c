"""Every case of every source fixer as one project, and its plan."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from fixers.frame.change import Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from tests.fixers.casebook import TITAN_RTX, read_cases
from tests.fixers.offers import plan_offers


def write_cases(root: Path, of_each: int | None = None) -> Path:
    """Write the cases of every source fixer, or so many of each that change a file."""
    written: Counter[str] = Counter()
    for case in read_cases():
        if of_each is not None:
            written[case.fixer.name] += case.after is not None
            if case.after is None or written[case.fixer.name] > of_each:
                continue
        if case.target.card is TITAN_RTX and not case.target.packages:
            file = root / case.name / case.path
            file.parent.mkdir(parents=True)
            file.write_bytes(case.before)
    return root


def plan_all(root: Path, **options) -> Plan:
    return plan_offers(Site(DiskTree(root), gpu=options.pop("card", TITAN_RTX), **options))
