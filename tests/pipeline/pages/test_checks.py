"""Every check, failure and cure has a page, and docs/checks/ holds exactly those."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.checks import load_checks
from pipeline.diagnosis.cures import CONFIG_CURES
from pipeline.pages.checks import check_page, page_names, write_pages

ROOT = Path(__file__).parents[3]
CHECK_NAME = re.compile(
    r"\b(?:error|warning|good|Unseen|told|_error|_warning|Finding|Rule|Anomaly)\(\s*\"([a-z0-9]+(?:-[a-z0-9]+)*)\""
)
SOURCES = [
    *(ROOT / "remote" / "payload" / "proof").rglob("*.py"),
    ROOT / "pipeline" / "judgements" / "static.py",
    ROOT / "remote" / "policy" / "precision.py",
]


def test_every_check_that_the_code_reports_has_a_page():
    names = {name for source in SOURCES for name in CHECK_NAME.findall(source.read_text(encoding="utf-8"))}
    assert len(names) > 40
    assert sorted(names - set(page_names())) == []


def test_every_page_is_about_a_check_that_exists():
    text = " ".join(path.read_text(encoding="utf-8") for path in [*SOURCES, *(ROOT / "pipeline").rglob("*.py")])
    assert [check.name for check in load_checks() if f'"{check.name}"' not in text] == []


@pytest.mark.parametrize("name", list(page_names()))
def test_a_page_begins_with_its_name(name):
    assert check_page(name).startswith(f"# {name}\n")


def test_pages_of_failures_name_the_wrong_advice_and_the_cure():
    page = check_page("fp16-unscale")
    assert "max_grad_norm=None" in page
    assert "`fixer:trainable-fp32`" in page
    assert "Attempting to unscale FP16 gradients" in page


def test_names_are_unique_across_all_kinds():
    names = list(page_names())
    assert len(names) == len(set(names))
    assert {f"config:{name}" for name in CONFIG_CURES} <= set(names)
    assert {entry.id for entry in load_catalog()} <= set(names)
    assert check_page("no-such-thing") is None


def test_the_pages_in_docs_are_current(tmp_path):
    write_pages(tmp_path)
    written = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()}
    kept = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "checks").iterdir()}
    assert kept == written
