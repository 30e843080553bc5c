"""A fixer's rule page: its module's docstring, as it is shown in a terminal and as it stands in docs/fixers/."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

from fixers.registry import FIXERS, module_name
from remote.errors import BadUsage

SECTIONS = ("What it does", "Why", "Before", "After", "What it can break", "How to undo")
SHOWN_AS_CODE = ("Before", "After", "How to undo")
INDEX = "README.md"
ABOUT = """\
# Fixers

A fixer knows one fault of a setup and the smallest change that puts it right. `pipeline plan` shows what they would
change, `pipeline run` and `pipeline fix` change it, `pipeline fix --undo` takes it back, and `pipeline explain NAME`
shows one of these pages. How well they are tested, and how fast they are: [../fixers.md](../fixers.md).

These pages are the docstrings of `fixers/`; `make docs` writes them.
"""


def fixer_names() -> tuple[str, ...]:
    """Every fixer, in the order in which they act."""
    return tuple(FIXERS)


def fixer_page(name: str) -> str:
    """The page of one fixer, as plain text. Raises BadUsage where no fixer is called so."""
    if name not in FIXERS:
        raise BadUsage(f"no fixer is called {name!r}", hint="pipeline explain")
    fixer = importlib.import_module(module_name(name))
    return inspect.cleandoc(fixer.__doc__ or "") + f"\n\nSafety\n    {fixer.safety}, version {fixer.version}\n"


def fixer_summary(name: str) -> str:
    """One sentence: what is true after the fixer acted."""
    return fixer_page(name).partition("\n")[0].partition(": ")[2]


def render_pages() -> dict[str, str]:
    """docs/fixers/ by file name: a page for each fixer, and the list of them."""
    pages = {f"{name}.md": render_page(name) for name in fixer_names()}
    rows = "".join(f"- [{name}]({name}.md): {fixer_summary(name)}\n" for name in fixer_names())
    return {**pages, INDEX: f"{ABOUT}\n{rows}"}


def write_pages(folder: Path) -> None:
    """`folder` holds these pages and no page of a fixer that is gone."""
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
    """Headings, which stand at the margin, and the indented lines under each."""
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
