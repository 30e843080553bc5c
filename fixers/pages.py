"""The pages of fixers, made from module docstrings: plain text for the terminal, and Markdown for docs/fixers/."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from fixers.registry import FIXERS, module_name, version_of
from remote.errors import BadUsage

SHOWN_AS_CODE = ("Before", "After", "How to undo")
INDEX = "README.md"
ABOUT = """\
# Fixers

A fixer detects one fault of a project or host and makes the smallest change that repairs it. `pipeline plan` shows the
changes, `pipeline run` and `pipeline fix` apply them, `pipeline fix --undo` reverts them, and `pipeline explain NAME`
shows one of these pages. Guarantees, tests and speed: [../fixers.md](../fixers.md).

These pages are generated from the docstrings of `fixers/` by `make docs`.
"""


def fixer_names() -> tuple[str, ...]:
    """Return the names of all fixers, in the order of execution."""
    return tuple(FIXERS)


def fixer_page(name: str) -> str:
    """Return the page of one fixer as plain text. Raises BadUsage for an unknown name."""
    if name not in FIXERS:
        raise BadUsage(f"unknown fixer: {name!r}", hint="pipeline explain")
    fixer = importlib.import_module(module_name(name))
    return inspect.cleandoc(fixer.__doc__ or "") + f"\n\nSafety\n    {fixer.safety}, version {version_of(fixer.name)}\n"


def fixer_summary(name: str) -> str:
    """Return the first sentence of the fixer's page."""
    return fixer_page(name).partition("\n")[0].partition(": ")[2]


def render_pages() -> dict[str, str]:
    """Return the pages of docs/fixers/ by file name: one page for each fixer, and the index."""
    pages = {f"{name}.md": render_page(name) for name in fixer_names()}
    rows = "".join(f"- [{name}]({name}.md): {fixer_summary(name)}\n" for name in fixer_names())
    return {**pages, INDEX: f"{ABOUT}\n{rows}"}


def write_pages(folder: Path) -> None:
    """Write all pages to `folder` and delete pages of fixers that no longer exist."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = render_pages()
    for page in folder.glob("*.md"):
        if page.name not in pages:
            page.unlink()
    for name, text in pages.items():
        (folder / name).write_text(text, "utf-8")


def render_page(name: str) -> str:
    """Return the page of one fixer as Markdown. Raises BadUsage if there is no such fixer."""
    return "".join(_parts(name))


def _parts(name: str) -> Iterator[str]:
    yield f"# {name}\n\n{_capitalised(fixer_summary(name))}\n"
    for section, lines in _sections(name):
        body = inspect.cleandoc("\n".join(lines))
        yield f"\n## {section}\n\n" + (f"```\n{body}\n```\n" if section in SHOWN_AS_CODE else f"{body}\n")


def _sections(name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each heading (a line without indentation) with the indented lines below it."""
    heading, under = "", list[str]()
    for line in fixer_page(name).splitlines()[1:]:
        if line and not line[0].isspace():
            if heading:
                yield heading, under
            heading, under = line, []
        else:
            under.append(line)
    yield heading, under


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
