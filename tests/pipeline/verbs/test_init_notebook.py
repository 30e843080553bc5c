"""`init` with a notebook as the training script."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.main import run


@pytest.mark.parametrize("notebook", ["tune.ipynb", "books/My Tune.IPYNB"])
def test_a_notebook_is_refused_with_words_and_no_command_that_converts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], notebook: str
) -> None:
    (tmp_path / notebook).parent.mkdir(exist_ok=True)
    (tmp_path / notebook).write_text('{"cells": [], "nbformat": 4}')
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--script", notebook, "--host", "local", "--config", "nb", "--yes"]) == 2
    printed = capsys.readouterr().err
    assert f"{notebook} is a notebook" in printed
    hint = " ".join(printed.partition("next: ")[2].split())
    assert hint.startswith("save the notebook as a Python script (in Jupyter: File,") and "nbconvert" not in printed
    assert not (tmp_path / "configs").exists()


def test_the_converted_script_beside_the_notebook_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tune.ipynb").write_text('{"cells": [], "nbformat": 4}')
    (tmp_path / "tune.py").write_text("trainer.train()\n")
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--script", "tune.py", "--host", "local", "--config", "nb", "--yes"]) == 0
    assert '["python", "tune.py"]' in (tmp_path / "configs/nb.yaml").read_text()
