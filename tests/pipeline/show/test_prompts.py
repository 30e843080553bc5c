"""Who answers questions: the user, `--yes`, or nobody."""

from __future__ import annotations

import getpass
import sys

import pytest

from pipeline.cli.main import run
from pipeline.show.prompts import prompter_for
from pipeline.show.screen import Screen
from remote.protocol.text import one_line


class Terminal:
    """Standard input that is a terminal and answers `y` to everything."""

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return "y\n"


def test_with_yes_there_is_no_prompt_and_nothing_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    asked, assumed = prompter_for(Screen()), prompter_for(Screen(), yes=True)
    assert asked is not None and asked.confirm("Do you trust this file?")
    assert assumed is not None and not assumed.confirm("Do you trust this file?")
    assert prompter_for(Screen(as_json=True), yes=True) is None


def test_no_input_disables_every_prompt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert run(["configs", "--no-input"]) == 0
    assert not Screen().confirm("Really?")
    assert Screen().secret("Password: ") is None
    assert Screen().ask("Name?", default="tiny") == "tiny"
    capsys.readouterr()


@pytest.mark.parametrize("text", ["a\x1b]0;x\x07", "\x9b2J", "a\nerror   halfstep is too old", "\u202eb"])
def test_SE_21_the_default_of_a_question_is_one_line_without_control_characters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    Screen().ask("host", default=text)
    Screen().ask(text)
    shown = capsys.readouterr().err
    assert one_line(text) in shown and shown.isprintable()


def test_a_secret_is_asked_for_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a prompt that quotes a server could look like another question of halfstep."""
    shown = list[str]()
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda prompt, stream: shown.append(prompt) or "x")
    assert Screen().secret("titan asks: \r\n\nPassphrase for id: ") == "x"
    assert shown == ["titan asks: \\r\\n\\nPassphrase for id: "]
