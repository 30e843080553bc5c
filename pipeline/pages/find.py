"""Find the page of a name, and list all names."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from fixers.pages import fixer_names, render_page
from pipeline.pages.checks import check_page
from pipeline.pages.checks import page_names as check_names
from pipeline.pages.stages import STAGES
from remote.errors import BadUsage
from remote.protocol.shell import shell_command

FINDINGS = Path(__file__).with_name("findings.json")


@cache
def load_findings() -> dict[str, tuple[str, str]]:
    """Return (meaning, remedy) of each finding of hosts, syncs and jobs, by the finding's name."""
    rows = json.loads(FINDINGS.read_text("utf-8"))
    return {name: (meaning, remedy) for name, (meaning, remedy) in rows.items()}


def all_names() -> Iterator[tuple[str, str]]:
    """Yield (kind, name) for every page."""
    yield from (("stage", name) for name in STAGES)
    yield from (("fixer", name) for name in fixer_names())
    yield from (("check", name) for name in check_names())
    yield from (("finding", name) for name in load_findings())


def page_of(name: str) -> str:
    """Return the Markdown pages with this name, joined to one text. Raises BadUsage with similar names."""
    stage = f"# {name}\n\n{STAGES[name]}" if name in STAGES else ""
    fixer = render_page(name) if name in fixer_names() else ""
    parts = [page for page in (stage, fixer, check_page(name), _finding_page(name)) if page]
    if parts:
        return "\n".join(parts)
    names = sorted({known for _, known in all_names()})
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    raise BadUsage(
        f"there is no page about {name!r}" + (f"; similar names: {', '.join(near)}" if near else ""),
        where="NAME",
        hint=shell_command("pipeline explain {}", near[0]) if near else "pipeline explain",
    )


def _finding_page(name: str) -> str:
    if name not in load_findings():
        return ""
    meaning, remedy = load_findings()[name]
    return f"# {name}\n\n{meaning}\n\n**What to do.** {remedy}\n"
