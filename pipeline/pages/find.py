"""The page of a name, wherever it is kept; and every name there is."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fixers.pages import fixer_names, fixer_page
from pipeline.pages.checks import check_page
from pipeline.pages.checks import page_names as check_names
from pipeline.pages.stages import STAGES
from remote.errors import BadUsage

FINDINGS = Path(__file__).with_name("findings.json")


@cache
def load_findings() -> dict[str, tuple[str, str]]:
    """Findings of host, sync and jobs: what each means, and what to do."""
    rows = json.loads(FINDINGS.read_text("utf-8"))
    return {name: (meaning, cure) for name, (meaning, cure) in rows.items()}


def all_names() -> Iterator[tuple[str, str]]:
    """(kind, name) of everything that has a page."""
    yield from (("stage", name) for name in STAGES)
    yield from (("fixer", name) for name in fixer_names())
    yield from (("check", name) for name in check_names())
    yield from (("finding", name) for name in load_findings())


def page_of(name: str) -> str:
    """The Markdown page. Raises BadUsage naming the nearest names."""
    if name in STAGES:
        return f"# {name}\n\n{STAGES[name]}"
    fixer = fixer_page(name) if name in fixer_names() else ""
    parts = [page for page in (fixer, check_page(name), _finding_page(name)) if page]
    if parts:
        return "\n".join(parts)
    names = sorted({known for _, known in all_names()})
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    raise BadUsage(
        f"there is no page about {name!r}" + (f"; near it: {', '.join(near)}" if near else ""),
        where="NAME",
        hint=f"pipeline explain {near[0]}" if near else "pipeline explain",
    )


def _finding_page(name: str) -> str:
    if name not in load_findings():
        return ""
    meaning, cure = load_findings()[name]
    return f"# {name}\n\n{meaning}\n\nWhat to do: {cure}\n"
