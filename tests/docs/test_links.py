"""No link in README and docs/ is dead, every page can be reached from README, and every verb is described."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest

from pipeline.cli.commands import VERBS
from pipeline.cli.group import command
from tests.docs.page import ROOT, all_pages, anchors, inline_code, links, read_page

PAGES = all_pages()
GENERATED = ("docs/checks/", "docs/fixers/", "docs/verbs", "docs/findings", "docs/stages")
WRITTEN = [name for name in PAGES if not name.startswith(GENERATED)]
"""The pages that are not generated."""


def targets(name: str) -> Iterator[tuple[str, str]]:
    """Yield path and anchor of each link that stays in the repository."""
    for link in links(read_page(name)):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        where = (PurePosixPath(name).parent / path) if path else PurePosixPath(name)
        yield (ROOT / where).resolve().relative_to(ROOT).as_posix(), anchor


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    dead = [
        f"{path}#{anchor}"
        for path, anchor in targets(name)
        if not (ROOT / path).exists() or (anchor and anchor not in anchors(read_page(path)))
    ]
    assert dead == []


def test_every_page_can_be_reached_from_README() -> None:
    reached, waiting = set[str](), ["README.md"]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in PAGES:
            continue
        reached.add(name)
        waiting += [path for path, _ in targets(name)]
    assert set(PAGES) - reached == set()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_described_on_a_page_that_is_not_generated(verb: str) -> None:
    words = (f"pipeline {verb}", f"`{verb}`")
    assert [name for name in WRITTEN if any(word in read_page(name).path.read_text("utf-8") for word in words)]


@pytest.mark.parametrize("name", PAGES)
def test_every_command_within_a_sentence_has_a_verb_and_options_that_exist(name: str) -> None:
    assert [code for code in inline_code(read_page(name)) if code.startswith("pipeline ") and not is_valid(code)] == []


def is_valid(code: str) -> bool:
    """Return True if verb and options of `pipeline VERB ...` exist. Text in quotes belongs to another program."""
    words = re.sub(r"'[^']*'|[][]", " ", code).partition(" | ")[0].split()[1:]
    given = {word.partition("=")[0] for word in words if word.startswith("-") and word != "-"}
    if not words or words[0].startswith("-"):
        return given <= {"--help", "--version", "--install-completion"}
    if words[0] not in VERBS:
        return words[0] in {"VERB", "..."}
    known = {option for param in command(words[0]).params for option in (*param.opts, *param.secondary_opts)}
    return given <= known | {"--help", "-h"}
