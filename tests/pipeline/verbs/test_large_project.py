"""SE: `init` and `fix` work in a project that contains files of any size, and do not read these into memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.main import run

HUGE = 2**40


@pytest.fixture(params=["big.py", "train.json", "requirements.txt", "README.md", "run.sh"])
def project(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("trainer = Trainer(model)\ntrainer.train()\n")
    with (tmp_path / request.param).open("wb") as file:
        file.truncate(HUGE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_SE_init_does_not_read_a_file_of_any_size(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--host", "local", "--config", "first", "--yes"]) == 0
    assert "train.py" in (project / "configs/first.yaml").read_text()


def test_SE_fix_does_not_read_a_file_of_any_size(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fix", "--card", "titan-rtx", "."]) == (31 if (project / "big.py").exists() else 0)
    is_source = any((project / name).exists() for name in ("big.py", "run.sh"))
    assert ("too large to be a source file" in capsys.readouterr().out) is is_source


@pytest.mark.parametrize("settings", ["path: train.py, copies: [big.py]", "path: big.py, copies: [train.py]"])
def test_SE_a_collator_that_is_too_large_is_neither_read_nor_replaced(
    settings: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/a.yaml").write_text(f"command: [python, big.py]\nfixers: {{data-collator: {{{settings}}}}}\n")
    (tmp_path / "train.py").write_text("trainer.train()\n")
    with (tmp_path / "big.py").open("wb") as file:
        file.truncate(HUGE)
    assert run(["fix", "--config", "a", "--card", "titan-rtx", "."]) == 31
    assert f"big.py cannot be compared: {HUGE} bytes: too large" in capsys.readouterr().out
    assert (tmp_path / "big.py").stat().st_size == HUGE
    assert (tmp_path / "train.py").read_text() == "trainer.train()\n"
