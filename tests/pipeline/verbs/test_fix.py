"""`pipeline fix` in a folder here: what is said can be typed as it stands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pipeline.cli.main import run

BEFORE = "import torch\nx = torch.bfloat16\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "my präzise project"
    folder.mkdir()
    (folder / "train.py").write_text(BEFORE)
    return folder


def test_the_line_that_takes_a_rewrite_back_does(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", str(project), "--card", "titan-rtx"]) == 0
    assert (project / "train.py").read_text() != BEFORE
    line = next(line for line in capsys.readouterr().out.splitlines() if "--undo" in line).split("`")[1]
    assert run(shlex.split(line)[1:]) == 0
    assert (project / "train.py").read_text() == BEFORE


@pytest.mark.parametrize(
    ("words", "meant"),
    [(["--card", "RTX4090"], ["--card", "rtx-4090"]), (["--only", "tokeniser"], ["--only", "tokenizer"])],
)
def test_a_name_that_is_almost_right_is_put_right_in_the_line(
    project: Path, capsys: pytest.CaptureFixture[str], words: list[str], meant: list[str]
) -> None:
    assert run(["fix", str(project), *words]) == 2
    assert shlex.join(["pipeline", "fix", str(project), *meant]) in capsys.readouterr().err


@pytest.mark.parametrize(("card", "expected"), [([], ["no-card"]), (["--card", "titan-rtx"], [])])
@pytest.mark.parametrize("words", [["fix", ".", "--diff"], ["plan"]], ids=["fix", "plan"])
def test_that_no_card_was_named_is_a_finding(
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    card: list[str],
    expected: list[str],
) -> None:
    monkeypatch.chdir(project)
    assert run([*words, *card, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [finding["check"] for finding in findings if finding["check"] == "no-card"] == expected


def test_what_is_in_the_way_of_the_originals_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".halfstep").touch()
    assert run(["fix", str(project), "--card", "titan-rtx"]) == 2
    assert (project / "train.py").read_text() == BEFORE
    assert f"{project / '.halfstep'} is not a folder" in capsys.readouterr().err
