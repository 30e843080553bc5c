"""The numbers in the README are correct."""

from __future__ import annotations

from pathlib import Path

from fixers.registry import setup_fixers, source_fixers
from pipeline.diagnosis.catalog import load_catalog

README = " ".join((Path(__file__).parents[2] / "README.md").read_text("utf-8").split())


def test_the_number_of_fixers_is_correct() -> None:
    assert f"{len(source_fixers()) + len(setup_fixers())} known faults of projects and hosts" in README


def test_the_number_of_named_errors_is_correct() -> None:
    assert f"{len(load_catalog())} named errors" in README
