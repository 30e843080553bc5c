"""SkyPilot's and dstack's own parsers accept what `pipeline export` writes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.main import run

ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv" / "engines" / "bin" / "python"
FILES = {"sky": "task.yaml", "dstack": "task.dstack.yml"}


def parsed(engine: str, file: Path, home: Path) -> dict[str, Any]:
    if not PYTHON.exists():
        pytest.skip("no engines in .venv/engines; `make test-rest` installs them")
    done = subprocess.run(
        [str(PYTHON), str(Path(__file__).with_name("parse_task.py")), engine, str(file)],
        env={"HOME": str(home), "PATH": os.environ["PATH"], "SKYPILOT_DISABLE_USAGE_COLLECTION": "1"},
        cwd=home,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


@pytest.mark.parametrize("engine", FILES)
def test_the_engine_parses_a_task_with_a_card_a_volume_secrets_and_data(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "speech.yaml").write_text("command: [python, 'a \"b\".py']\nsecrets: [HF_TOKEN]\n")
    (tmp_path / 'a "b".py').write_text("")
    (tmp_path / "sounds").mkdir()
    (tmp_path / "sounds" / "a.txt").write_text("one")
    monkeypatch.chdir(tmp_path)
    words = ["--gpu", "A100:2", "--volume", "kept", "--set", "data.path=sounds", "--set", "secrets=[HF_TOKEN]"]
    assert run(["export", engine, "--config", "speech", *words]) == 0
    seen = parsed(engine, tmp_path / ".halfstep" / "export" / f"{engine}-speech" / FILES[engine], tmp_path)
    assert seen["name"] == "speech"
    assert seen["cards"] == ["A100"]
    assert [name.rsplit("halfstep-task/", 1)[1].partition("-")[0] for name in seen["uploads"]] == [
        "data.tar",
        "halfstep",
        "project.tar.gz",
    ]
    assert list(seen["volumes"]) == ["/halfstep"]


@pytest.mark.parametrize("engine", FILES)
def test_the_engine_parses_a_task_without_a_card(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["export", engine, "--config", "tiny", "--gpu", "none"]) == 0
    seen = parsed(engine, tmp_path / ".halfstep" / "export" / f"{engine}-tiny" / FILES[engine], tmp_path)
    assert (seen["name"], seen["cards"]) == ("tiny", [])
