"""The README is correct: its numbers, and its first run in a checkout of halfstep."""

from __future__ import annotations

from pathlib import Path

from fixers.frame.disk_tree import DiskTree
from fixers.frame.site import Site
from fixers.plans.site_plan import plan_fixes
from fixers.registry import setup_fixers, source_fixers
from pipeline.diagnosis.catalog import load_catalog
from tests.fixers.casebook import TITAN_RTX

ROOT = Path(__file__).parents[2]
README = " ".join((ROOT / "README.md").read_text("utf-8").split())


def test_the_number_of_fixers_is_correct() -> None:
    assert f"{len(source_fixers()) + len(setup_fixers())} known faults of projects and hosts" in README


def test_the_number_of_named_errors_is_correct() -> None:
    assert f"{len(load_catalog())} named errors" in README


def test_the_first_run_in_a_checkout_leaves_the_code_of_halfstep_alone() -> None:
    tree = DiskTree(ROOT)
    assert [path for path in tree.paths() if path.endswith(".py")] == []
    plan = plan_fixes(Site(tree, gpu=TITAN_RTX))
    assert (plan.changes, plan.findings) == ((), ())
