"""What the command line makes of an end that no verb meant."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pipeline.cli import run


class Impatient(io.RawIOBase):
    """A standard input whose user presses Ctrl-C."""

    buffer = property(lambda self: self)

    def read(self, size: int = -1) -> bytes:
        raise KeyboardInterrupt


def test_BI_60_ctrl_c_is_one_object_under_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", Impatient())
    assert run(["diagnose", "-", "--json"]) == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["command"], told["exit_code"], told["ok"]) == ("diagnose", 130, False)
    assert told["findings"][0]["hint"] == "pipeline diagnose - --json"


def test_BI_60_ctrl_c_is_a_word_on_stderr(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Impatient())
    assert run(["diagnose", "-"]) == 130
    said = capsys.readouterr()
    assert said.out == ""
    assert "interrupted" in said.err
