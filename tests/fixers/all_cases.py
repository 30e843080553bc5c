"""Every case of every source fixer as one project, and its plan."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.change import Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_offers
from tests.fixers.casebook import TITAN_RTX, read_cases


def write_cases(root: Path) -> Path:
    for case in read_cases():
        if case.target.card is TITAN_RTX and not case.target.packages:
            file = root / case.name / case.path
            file.parent.mkdir(parents=True)
            file.write_bytes(case.before)
    return root


def plan_all(root: Path, **options) -> Plan:
    return plan_offers(Site(DiskTree(root), gpu=options.pop("card", TITAN_RTX), **options))
