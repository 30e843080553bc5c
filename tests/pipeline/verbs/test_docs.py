"""`pipeline docs`: the list of pages, and a page by name, from a checkout and from an installed wheel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.pages.manual import manual_pages
from remote.protocol.exits import ExitCode

DOCS = Path(__file__).parents[3] / "docs"


def test_every_page_is_listed_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "--json"]) == 0
    names = {one["name"]: one["title"] for one in json.loads(capsys.readouterr().out)["names"]}
    assert {"jobs", "hosts", "precision", "README"} <= set(names)
    assert names["architecture"] == "Architecture"
    assert set(names) >= {path.stem for path in DOCS.glob("*.md")}


@pytest.mark.parametrize("name", ["jobs", "docs/jobs.md", "jobs.md"])
def test_a_page_is_printed_by_its_name_or_path(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["docs", name]) == 0
    assert capsys.readouterr().out.strip() == (DOCS / "jobs.md").read_text("utf-8").strip()


def test_a_misspelt_page_name_is_reported_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["docs", "precison"]) == ExitCode.USAGE
    assert "pipeline docs precision" in capsys.readouterr().err


def test_pages_of_explain_are_not_pages_of_the_manual() -> None:
    assert not any(name.startswith(("checks/", "fixers/")) for name in manual_pages())
