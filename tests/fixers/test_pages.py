"""Every fixer has a page, and the pages in docs/ are current."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.pages import fixer_names, fixer_page, fixer_summary, render_pages, write_pages
from fixers.registry import module_name, setup_fixers, source_fixers, version_of
from remote.errors import BadUsage

SECTIONS = ("What it does", "Why", "Before", "After", "What it can break", "How to undo")
DOCS = Path(__file__).parents[2] / "docs" / "fixers"


@pytest.mark.parametrize("name", fixer_names())
def test_a_page_has_all_sections_in_order(name: str) -> None:
    page = fixer_page(name)
    headings = [line for line in page.splitlines() if line in SECTIONS]
    assert tuple(headings) == SECTIONS
    assert page.startswith(f"{name}: ")
    assert fixer_summary(name).endswith(".")


@pytest.mark.parametrize("fixer", [*source_fixers(), *setup_fixers()], ids=lambda fixer: fixer.name)
def test_a_fixer_is_named_as_its_module(fixer) -> None:
    assert fixer.__name__ == module_name(fixer.name)
    assert fixer.safety in ("safe", "unsafe")
    assert version_of(fixer.name) >= 1


def test_each_fixer_name_is_unique() -> None:
    assert len(set(fixer_names())) == len(fixer_names())


def test_a_page_is_markdown_with_every_section_once() -> None:
    page = render_pages()["bf16-to-fp16.md"]
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        "# bf16-to-fp16",
        *(f"## {section}" for section in SECTIONS),
        "## Safety",
    ]
    assert "```\nargs = TrainingArguments" not in page
    assert '\nargs = TrainingArguments(output_dir="out", fp16=True)\n```\n' in page
    assert page.endswith(f"\n\nsafe, version {version_of('bf16-to-fp16')}\n")
    assert page.startswith("# bf16-to-fp16\n\nPython files and notebooks use float16")


def test_docs_are_current() -> None:
    written = {page.name: page.read_text("utf-8") for page in DOCS.glob("*.md")}
    assert written == render_pages(), "run `make docs`"


def test_writing_pages_drops_those_of_fixers_that_are_gone(tmp_path: Path) -> None:
    (tmp_path / "gone.md").write_text("old")
    write_pages(tmp_path)
    assert {page.name for page in tmp_path.iterdir()} == set(render_pages())


def test_an_unknown_page_is_bad_usage() -> None:
    with pytest.raises(BadUsage, match="no-such"):
        fixer_page("no-such")
