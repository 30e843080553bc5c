"""The survey of runs tells the same of each run as the survey of the host, and starts no program."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.operations.jobs import survey_runs
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench


def test_each_run_is_as_in_the_survey_of_the_host(bench: Bench) -> None:
    bench.start()
    until(lambda: bench.survey().result is not None, "the end of the job")
    surveyed = survey_runs(bench.host, PROJECT)
    assert surveyed.runs == bench.look().runs
    assert surveyed.run(bench.run) == bench.survey()
    assert surveyed.run("other-01234567") is None
    assert survey_runs(bench.host, "another-project").runs == ()


@pytest.mark.parametrize("name", ["nvidia-smi", "python3"])
def test_no_program_is_started(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder, record = tmp_path / "bin", tmp_path / "started"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    bench.python = "python3"
    assert survey_runs(bench.host, PROJECT).runs == (), "the agent is running from here on"
    (folder / name).write_text(f'#!/bin/sh\necho started >> "{record}"\nexit 9\n')
    (folder / name).chmod(0o755)
    survey_runs(bench.host, PROJECT)
    assert not record.exists()
    bench.look()
    assert record.exists(), "the survey of the host starts it"
