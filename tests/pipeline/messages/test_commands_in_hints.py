"""Every command that a hint, a message or a catalog entry names works as typed."""

from __future__ import annotations

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fixers.registry import SETUP_NAMES
from pipeline.cli.commands import VERBS
from pipeline.cli.group import command
from pipeline.messages.hints import complete_hint
from remote.errors import HalfstepError

ROOT = Path(__file__).parents[3]
DATA = ("pipeline/diagnosis/catalog.json", "pipeline/diagnosis/checks.json", "pipeline/pages/findings.json")
SHOWN = ("pipeline/**/*.py", "remote/**/*.py", "fixers/**/*.py", "docs/**/*.md", "configs/**/*.yaml", "README.md")
VALUE = "train"
"""Stands for every value that is known only when the message is made: it is a stage, and a valid name."""
COMMAND = re.compile(rf"\bpipeline (?:{'|'.join(VERBS)})\b(?:(?! \()[^`;,()&\n])*")

BEGINS = re.compile(r"""["'`]pipeline """)


def texts_of_code(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every hint, and of every text with a command in backticks."""
    source = path.read_text("utf-8")
    if not BEGINS.search(source):  # saves most of the time
        return
    tree = ast.parse(source)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
    }
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        text = ""
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(one.value) if isinstance(one, ast.Constant) else VALUE for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts:
            text = node.value.replace("{}", VALUE)  # a template of shell_command
        if text.startswith("pipeline ") and "|" not in text:  # a pattern of commands is none
            yield node.lineno, text
        for quoted in re.findall(r"`(pipeline [^`]*)`", text):
            yield node.lineno, quoted


def texts_of_data(name: str) -> Iterator[str]:
    def walk(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            for one in value.values() if isinstance(value, dict) else value:
                yield from walk(one)

    return walk(json.loads((ROOT / name).read_text("utf-8")))


def commands() -> dict[str, str]:
    """Return each command with the place that names it."""
    found: dict[str, str] = {}
    for folder in ("pipeline", "remote", "fixers"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, text in texts_of_code(path):
                for match in COMMAND.finditer(text):
                    found.setdefault(match.group().strip(), f"{path.relative_to(ROOT)}:{line}")
    for name in DATA:
        for text in texts_of_data(name):
            for quoted in re.findall(r"`(pipeline [^`]*)`", text):
                found.setdefault(quoted, name)
    return {typed: where for typed, where in found.items() if "VERB" not in typed}


def problem_of(typed: str) -> str:
    """Return why the command cannot be typed, or ""."""
    _, verb, *words = shlex.split(complete_hint(typed, "titan", "mine"))
    if verb == "export" and words[:1] == [VALUE]:
        words = ["sky", *(words[1:] or ["--config", "mine"])]
    try:
        command(verb).make_context(verb, words)
    except (click.ClickException, HalfstepError) as error:
        return str(error)
    return ""


def test_every_command_in_a_message_has_valid_options_and_all_that_are_required() -> None:
    found = commands()
    assert len(found) > 60
    assert {"pipeline fix --only environment", f"pipeline stop {VALUE}", "pipeline run --until verify"} <= set(found)
    invalid = {typed: problem for typed in found if (problem := problem_of(typed))}
    assert [f"{found[typed]}: {typed}: {problem}" for typed, problem in invalid.items()] == []


def test_a_command_without_its_verb_s_options_is_invalid() -> None:
    assert problem_of("pipeline run --until verify") == ""
    assert "--untill" in problem_of("pipeline run --untill verify")


@pytest.mark.parametrize("name", DATA)
def test_a_fixer_of_the_host_is_never_named_without_a_host(name: str) -> None:
    of_hosts = "|".join(SETUP_NAMES)
    wrong = re.compile(rf"pipeline fix (?!.*--host)[^`]*--only (?:{of_hosts})\b")
    assert [text for text in texts_of_data(name) if wrong.search(text)] == []


def test_no_text_installs_halfstep_from_an_index_that_does_not_have_it() -> None:
    wrong = re.compile(r"(?:pip|pipx|uv tool) install (?:-\S+ )*['\"]?halfstep\b")
    paths = [path for pattern in SHOWN for path in ROOT.glob(pattern)] + [ROOT / name for name in DATA]
    assert len(paths) > 300
    assert [str(path) for path in paths if wrong.search(path.read_text("utf-8", "replace"))] == []
