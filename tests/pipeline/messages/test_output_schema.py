"""The published schema of `--json`: every command's object matches it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.messages.as_json import outcome_to_json
from pipeline.messages.outcome import JobOutcome, Outcome, StageState
from remote.protocol.jobs import JobState
from tests.lab.json_output import SCHEMA, problems_of

PAGE = SCHEMA.parents[1] / "json.md"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "train.py").write_text("import torch\nx = torch.bfloat16\n")
    (tmp_path / "train.log").write_text("ValueError: Attempting to unscale FP16 gradients.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ("init", "--host", "local", "--config", "mine", "--script", "train.py"),
        ("run", "--host", "nowhere.invalid", "--config", "tiny"),
        ("run",),
        ("plan", "--config", "tiny", "--card", "titan-rtx"),
        ("verify", "--host", "local", "--config", "tiny", "--no-proof"),
        ("fix", ".", "--check", "--card", "titan-rtx"),
        ("fix", ".", "--undo"),
        ("status",),
        ("list",),
        ("hosts",),
        ("hosts", "check", "local"),
        ("configs",),
        ("explain",),
        ("explain", "port"),
        ("diagnose", "train.log"),
        ("stop", "nothing"),
        ("no-such-verb",),
    ],
    ids=" ".join,
)
@pytest.mark.usefixtures("project")
def test_the_object_of_every_command_matches_the_schema(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    run([*words, "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert problems_of(answer) == []
    assert answer["command"] == words[0]


def test_the_schema_lists_every_state() -> None:
    schema = json.loads(SCHEMA.read_text())["properties"]
    assert set(schema["stages"]["items"]["properties"]["state"]["enum"]) == {state.value for state in StageState}
    queued = JobOutcome(JobState.RUNNING, waits="waits for tiny-8f4b20aa to end")
    jobs = [queued, *map(JobOutcome, JobState)]
    assert set(schema["job"]["properties"]["state"]["enum"]) == {job.shown_state for job in jobs}
    assert problems_of(outcome_to_json(Outcome("status", job=queued))) == []


def test_an_unknown_key_or_state_is_a_problem() -> None:
    answer = {"protocol": 1, "command": "run", "ok": True, "exit_code": 0, "findings": []}
    assert problems_of(answer) == []
    assert len(problems_of({**answer, "odd": 1})) == 1
    assert len(problems_of({**answer, "job": {"state": "asleep"}})) == 1
    assert len(problems_of({key: value for key, value in answer.items() if key != "ok"})) == 1


def test_every_key_of_the_schema_is_on_the_page() -> None:
    page = PAGE.read_text("utf-8")
    missing = [
        key
        for key in json.loads(SCHEMA.read_bytes())["properties"]
        if f"`{key}`" not in page and f'"{key}"' not in page
    ]
    assert not missing
