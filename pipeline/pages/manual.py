"""The manual: the pages of docs/, which are part of the installed package."""

from __future__ import annotations

import difflib
from pathlib import Path

from pipeline.config.shipped import shipped_docs
from remote.errors import BadUsage
from remote.protocol.shell import shell_command

GENERATED = ("checks", "fixers", "schemas")
"""Folders of docs/ that are not part of the manual: pages that `pipeline explain` prints, and JSON files."""


def manual_pages() -> dict[str, Path]:
    """Return the pages by name, such as `jobs`, without the pages of `pipeline explain`."""
    root = shipped_docs()
    paths = (path.relative_to(root) for path in sorted(root.rglob("*.md")))
    return {path.with_suffix("").as_posix(): root / path for path in paths if path.parts[0] not in GENERATED}


def title_of(page: Path) -> str:
    """Return the first heading of a page."""
    with page.open(encoding="utf-8") as lines:
        return next((line.lstrip("# ").strip() for line in lines if line.startswith("# ")), page.stem)


def read_manual(name: str) -> str:
    """Return the Markdown of a page. Raises BadUsage with the most similar name."""
    pages = manual_pages()
    name = name.removeprefix("docs/").removesuffix(".md")
    if name in pages:
        return pages[name].read_text("utf-8")
    near = difflib.get_close_matches(name, pages, n=1, cutoff=0.4)
    raise BadUsage(
        f"the manual has no page {name!r}",
        where="PAGE",
        hint=shell_command("pipeline docs {}", near[0]) if near else "pipeline docs",
        instead=(name, near[0]) if near else None,
    )
