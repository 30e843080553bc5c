"""`init` inside a project makes another one, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.cli.main import run


@pytest.mark.parametrize(("where", "told"), [("project/src", True), ("project", False)])
def test_a_project_inside_a_project_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str, told: bool
) -> None:
    (tmp_path / "project" / "configs").mkdir(parents=True)
    (tmp_path / "project" / "src").mkdir()
    monkeypatch.chdir(tmp_path / where)
    assert run(["init", "--host", "local", "--config", "first"]) == 0
    assert (f"{tmp_path / 'project'} is a project already" in capsys.readouterr().out) is told
    assert (tmp_path / where / "configs" / "first.yaml").is_file()
