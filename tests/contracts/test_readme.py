"""The numbers in the README are correct."""

from __future__ import annotations

from pathlib import Path

from fixers.registry import setup_fixers, source_fixers
from pipeline.diagnosis.catalog import load_catalog

README = " ".join((Path(__file__).parents[2] / "README.md").read_text("utf-8").split())


def test_it_counts_the_fixers() -> None:
    assert f"{len(source_fixers()) + len(setup_fixers())} known faults of projects and hosts" in README


def test_it_counts_the_errors_that_have_a_name() -> None:
    assert f"{len(load_catalog())} named errors" in README
