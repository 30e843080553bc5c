"""A page of the documentation, parsed into the commands that a reader types, the files to write and the links.

Commands are in blocks marked `console`. A line that begins with `$ ` is a command, to which lines that begin with `> `
belong; the lines below it are its output. A block with `title="train.py"` after its language is a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from pipeline.cli.commands import VERBS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TITLE = re.compile(r'\btitle="([^"]+)"')
COMMAND = re.compile(
    rf"(?:\$ )?(?:(?:pipeline|halfstep) (?:-|(?:{'|'.join(VERBS)})\b)|(?:[A-Z_]+=\S+ )?"
    r"(?:make|pip|pipx|uv|python3?|docker|ssh|git|gcloud|sky|dstack|sed|cd|mkdir|curl|cp|cat|echo) \S)"
)
"""The beginning of a line that is a command."""


@dataclass(frozen=True)
class Command:
    """A command, and the output that the page shows for it. Without an output, any output is accepted."""

    line: int
    text: str
    output: tuple[str, ...] = ()


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    line: int
    name: str
    text: str


@dataclass(frozen=True)
class Page:
    """A page, by its path from the root of the repository."""

    name: str
    tokens: tuple[Token, ...]

    @property
    def path(self) -> Path:
        return ROOT / self.name


def all_pages() -> list[str]:
    """README.md and every page in docs/."""
    return ["README.md", *(path.relative_to(ROOT).as_posix() for path in sorted(DOCS.rglob("*.md")))]


@cache
def read_page(name: str) -> Page:
    return Page(name, tuple(MarkdownIt("commonmark").enable("table").parse((ROOT / name).read_text("utf-8"))))


def blocks(page: Page) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, the info string and the text of every fenced code block."""
    for token in page.tokens:
        if token.type in {"fence", "code_block"}:
            assert token.map is not None
            yield token.map[0] + 1, token.info.strip(), token.content


def steps(page: Page) -> tuple[Command | File, ...]:
    """Return the commands to type and the files to write, in order."""
    found: list[Command | File] = []
    for line, info, text in blocks(page):
        if info.split(" ")[0] == "console":
            found += parse_console(text, line + 1)
        elif title := TITLE.search(info):
            found.append(File(line, title[1], text))
    return tuple(found)


def parse_console(text: str, first: int = 1) -> Iterator[Command]:
    """Yield the commands of a block whose text begins at that line."""
    typed: list[str] = []
    shown: list[str] = []
    begun = first
    for number, line in enumerate(text.splitlines(), first):
        if line.startswith("$ "):
            if typed:
                yield Command(begun, "\n".join(typed), tuple(shown))
            typed, shown, begun = [line[2:]], [], number
        elif not typed:
            raise ValueError(f"line {number}: a block of commands begins with `$ `, not with {line!r}")
        elif line.startswith("> ") and not shown:
            typed.append(line[2:])
        else:
            shown.append(line)
    if typed:
        yield Command(begun, "\n".join(typed), tuple(shown))


def commands_outside_console(page: Page) -> list[str]:
    """Return the lines of other blocks that are commands."""
    return [
        f"{page.name}:{line}: {row.strip()}"
        for line, info, text in blocks(page)
        if info.split(" ")[0] not in {"console", "python"}
        for row in text.splitlines()
        if COMMAND.match(row)
    ]


def inline_code(page: Page) -> Iterator[str]:
    """Yield every piece of code within a sentence or a table."""
    for token in page.tokens:
        yield from (" ".join(child.content.split()) for child in token.children or () if child.type == "code_inline")


def links(page: Page) -> Iterator[str]:
    """Yield the target of every link and picture."""
    for token in page.tokens:
        for child in token.children or ():
            if child.type in {"link_open", "image"}:
                yield str(child.attrs["href" if child.type == "link_open" else "src"])


def anchors(page: Page) -> set[str]:
    """Return the anchor of every heading."""
    found = set()
    for token, inner in zip(page.tokens, page.tokens[1:], strict=False):
        if token.type == "heading_open":
            words = "".join(child.content for child in inner.children or ())
            found.add(re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", words.lower()).strip()))
    return found
