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
