"""What remains on a terminal after a verb: no spinner, every fact once, and the lines of code as they are."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator

import pyte
import pytest

from pipeline.cli.commands import VERBS
from pipeline.records.layout import Records
from pipeline.records.runs import list_notes
from tests.docs.page import Command
from tests.docs.reader import INTERRUPT, Reader
from tests.e2e.user import User
from tests.e2e.waiting_project import WaitingProject, write_waiting_project

SPINNER = re.compile("[\u2801-\u28ff]")
MARKUP = re.compile(r"\[\[|\]\]|\[\]|\[/?(?:bold|dim|cyan|red|green|link)\b|``|\*\*|\x1b")


@pytest.fixture
def waiting(user: User) -> Iterator[WaitingProject]:
    waiting = write_waiting_project(user)
    yield waiting
    waiting.go()
    user.run_pipeline("stop")


def typed(user: User, *words: str, output: tuple[str, ...] = ()) -> tuple[str, pyte.Screen]:
    """Type a command at a terminal of 100 columns. Return the text that remains, and the screen.

    `output` ends with INTERRUPT if Ctrl-C is pressed as soon as the lines before it are visible.
    """
    reader = Reader(user.project, {**user.environment_of_commands, "TERM": "xterm-256color"})
    screens: list[pyte.Screen] = []
    text = reader.type_command(
        Command(1, shlex.join([sys.executable, "-m", "pipeline", *words]), output), watch=screens.append
    )
    return text, screens[-1]


def run_of(user: User) -> str:
    [note] = list_notes(Records(user.project))
    return note.name


@pytest.mark.train
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("words", "output"),
    [(("--detach",), ()), ((), ("...", "elapsed", "...", INTERRUPT))],
    ids=["detach", "ctrl-c"],
)
def test_detach_and_ctrl_c_leave_no_spinner_and_say_once_that_the_job_keeps_running(
    user: User, waiting: WaitingProject, words: tuple[str, ...], output: tuple[str, ...]
) -> None:
    text, screen = typed(user, "run", "--host", "one", "--config", "plain", *words, output=output)
    waiting.await_training()
    run = run_of(user)
    assert not SPINNER.search(text), text
    assert not screen.cursor.hidden
    assert [text.count(words) for words in ("keeps running", "[interrupted]")] == [1, int(bool(output))], text
    assert [text.count(f"pipeline {verb} {run}") for verb in ("attach", "status", "stop")] == [1, 1, 1], text
    assert text.count("  train  ") == 1, "one line for the stage"


@pytest.mark.train
@pytest.mark.timeout(600)
def test_ctrl_c_in_wait_and_attach_leaves_no_spinner_and_the_job_runs_on(user: User, waiting: WaitingProject) -> None:
    assert user.run_pipeline("run", "--host", "one", "--config", "plain", "--detach").code == 0
    waiting.await_training()
    for verb, seen in (("wait", "elapsed"), ("attach", "waiting")):
        text, screen = typed(user, verb, output=("...", seen, "...", INTERRUPT))
        assert not SPINNER.search(text) and not screen.cursor.hidden, text
        assert text.count("[interrupted]") == 1 and "Traceback" not in text, text
    assert user.run_pipeline("status", "--json").json["job"]["state"] == "running"


def test_explain_keeps_the_lines_of_a_fixers_code_on_a_terminal(user: User) -> None:
    text, _ = typed(user, "explain", "trainable-fp32")
    lines = [line.strip() for line in text.splitlines()]
    for line in (
        "model = get_peft_model(model, config)",
        "for parameter in model.parameters():  # a loss scaler refuses float16 gradients",
        "if parameter.requires_grad:",
        "What it can break",
    ):
        assert line in lines, text


@pytest.mark.parametrize("columns", [60, 100])
def test_no_help_shows_markup_on_a_terminal(user: User, columns: int) -> None:
    """`hosts --help` showed `[[check NAME]] []`."""
    each = "; ".join(
        shlex.join([sys.executable, "-m", "pipeline", *name, "--help"]) for name in ((), *((verb,) for verb in VERBS))
    )
    reader = Reader(user.project, {**user.environment_of_commands, "TERM": "xterm-256color", "COLUMNS": str(columns)})
    text = reader.type_command(Command(1, each), rows=1000)
    assert text.count("Usage: ") == len(VERBS) + 1
    assert MARKUP.findall(text) == []
    assert "Usage: pipeline hosts [OPTIONS] [check NAME]\n" in re.sub(r" +\n", "\n", text)
