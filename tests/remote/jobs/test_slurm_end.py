"""How a job left Slurm's queue without a result: from accounting where it is on, else from the controller."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.judgements.job import judge_end, judge_run
from remote.operations.jobs import follow_job
from remote.payload.jobs import slurm
from remote.protocol.jobs import JobNews, JobState, RunSurvey
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

FINDINGS = {
    "OUT_OF_MEMORY": "slurm-out-of-memory",
    "TIMEOUT": "slurm-timeout",
    "NODE_FAIL": "slurm-node-failed",
    "PREEMPTED": "slurm-preempted",
    "CANCELLED": "slurm-cancelled",
    "FAILED": "job-lost",
}


@pytest.fixture(autouse=True)
def forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_ENDED", {})


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only one on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def answers(folder: Path, name: str, text: str, code: int = 0) -> None:
    command = folder / name
    command.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" >> '{folder}/asked'\nprintf '{text}'\nexit {code}\n")
    command.chmod(0o755)


@pytest.mark.parametrize("state", FINDINGS)
@pytest.mark.parametrize("job", [JobState.LOST, JobState.ABSENT])
def test_each_state_is_a_finding_of_its_own(state: str, job: JobState) -> None:
    (survey,) = judge_run(RunSurvey("r-1", "r", "f", 1, job, slurm_end=state), "r-1").findings
    end = judge_end("r-1", JobNews(1, job, slurm_end=state))
    assert end == survey
    assert (survey.check, survey.exit_code) == (FINDINGS[state], 41)
    assert state in survey.message
    assert survey.hint.startswith("pipeline run")


@pytest.mark.parametrize(
    ("shown", "state"),
    [
        ("TIMEOUT\\n", "TIMEOUT"),
        ("CANCELLED by 1000\\n", "CANCELLED"),
        ("CANCELLED+\\n", "CANCELLED"),
        ("NODE_FAIL\\nOUT_OF_MEMORY\\n", "OUT_OF_MEMORY"),
    ],
)
def test_accounting_tells_the_state_of_the_newest_start(commands: Path, shown: str, state: str) -> None:
    answers(commands, "sacct", shown)
    answers(commands, "scontrol", "JobId=7 JobState=FAILED Reason=None\\n")
    assert slurm.end_state("7") == state
    answers(commands, "sacct", "", 1)
    assert slurm.end_state("7") == state, "the state of a job that has ended stays"
    assert "--jobs=7 --format=State" in (commands / "asked").read_text()


@pytest.mark.parametrize(
    ("shown", "code"), [("", 0), ("RUNNING\\n", 0), ("accounting storage is disabled\\n", 1), ("\\033[2J;rm\\n", 0)]
)
def test_without_accounting_the_controller_is_asked(commands: Path, shown: str, code: int) -> None:
    assert slurm.end_state("7_1") == "", "neither command is installed"
    answers(commands, "sacct", shown, code)
    assert slurm.end_state("7_1") == ""
    answers(commands, "scontrol", "JobId=8 ArrayJobId=7 JobState=OUT_OF_MEMORY Reason=OutOfMemory\\n   Priority=1\\n")
    assert slurm.end_state("7_1") == "OUT_OF_MEMORY"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch) as running:
        yield running


@pytest.mark.root
def test_a_job_that_was_cancelled_before_it_began_says_so(bench: Bench, cluster: Slurm) -> None:
    bench.start("--exit", 0, request={"backend": "slurm", "slurm": ("--begin=now+1hour",)})
    number = json.loads(Path(bench.job().submitted).read_text())["slurm_job"]
    cluster.ask("scancel", number)
    until(lambda: bench.survey().slurm_end, "the end")
    last = list(follow_job(bench.host, PROJECT, bench.run))[-1]
    assert (bench.survey().slurm_end, last.slurm_end) == ("CANCELLED", "CANCELLED")
    (finding,) = judge_run(bench.survey(), bench.run).findings
    assert finding.check == "slurm-cancelled"
