"""A job that waits for its turn, or was stopped in the queue, has no output: every verb says so and none fails."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.cli.main import run
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.output import read_output
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_start
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from remote.link.local import local_host
from remote.operations.jobs import stop_job
from remote.protocol.findings import Severity
from remote.protocol.jobs import JobResult, JobState, RunSurvey, Started
from remote.pull.reconnect import RetryPolicy
from tests.lab.payload import install_payload
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench, ours

FIRST, SECOND, THIRD = "tiny-11111111", "tiny-22222222", "tiny-33333333"
WAITS = f"the job of {SECOND} has not begun: it waits for {FIRST} to end"
STOPPED = f"the job of {SECOND} was stopped before it began"
Types = Callable[..., tuple[int, dict[str, Any], str]]
Jobs = dict[str, Bench]


@contextlib.contextmanager
def three_jobs(folder: Path) -> Iterator[Jobs]:
    """Start three real jobs on `local`: the first one trains until the file `enough` exists, the others wait."""
    workdir = install_payload(folder / "work")
    host = local_host(str(workdir))
    jobs = {name: Bench(host, workdir, name) for name in (FIRST, SECOND, THIRD)}
    for job in jobs.values():
        job.start("--steps", 1, "--until", folder / "enough", request={"queue": True})
    yield jobs
    (folder / "enough").touch()
    until(lambda: not ours(workdir), "the end of all jobs")
    host.close()


def record(jobs: Jobs, folder: Path) -> Jobs:
    for name, job in jobs.items():
        settings = {"host": "local", "workdir": str(job.workdir)}
        write_start(Records(folder), RunNote(name, "here", "tiny", PROJECT, 1.0, settings))
    return jobs


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Jobs]:
    """Jobs that the test may change."""
    with three_jobs(tmp_path) as jobs:
        yield record(jobs, tmp_path)


@pytest.fixture(scope="module")
def unchanged_jobs(new_folder: Callable[[str], Path]) -> Iterator[Jobs]:
    with three_jobs(new_folder("unchanged")) as jobs:
        yield jobs


@pytest.fixture
def waiting(unchanged_jobs: Jobs, tmp_path: Path) -> Jobs:
    """Jobs for tests that only look at them."""
    return record(unchanged_jobs, tmp_path)


@pytest.fixture(scope="module")
def stopped_jobs(new_folder: Callable[[str], Path]) -> Iterator[Jobs]:
    with three_jobs(new_folder("stopped")) as jobs:
        stop_job(jobs[SECOND].host, PROJECT, SECOND)
        yield jobs


@pytest.fixture
def stopped(stopped_jobs: Jobs, tmp_path: Path) -> Jobs:
    """Jobs of which the second one was stopped, for tests that only look at them."""
    return record(stopped_jobs, tmp_path)


@pytest.fixture
def types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Types:
    monkeypatch.chdir(tmp_path)

    def typed(*words: str) -> tuple[int, dict[str, Any], str]:
        code = run([*words, "--json"])
        printed = capsys.readouterr()
        return code, json.loads(printed.out.splitlines()[-1]), printed.err

    return typed


@pytest.mark.usefixtures("waiting")
@pytest.mark.parametrize("verb", ["logs", "pull", "diagnose"])
def test_a_queued_run_has_no_output_and_the_verb_says_for_what_it_waits(types: Types, verb: str) -> None:
    code, answer, _ = types(verb, SECOND)
    assert (code, [one["message"] for one in answer["findings"]]) == (0, [WAITS])
    assert answer["findings"][0]["hint"] == f"pipeline attach {SECOND}"
    assert not list(Records(Path.cwd()).folder_named(SECOND).rglob("*.log")), "an empty log would count as pulled"


@pytest.mark.usefixtures("stopped")
@pytest.mark.parametrize("verb", ["logs", "pull", "diagnose", "tail"])
def test_a_run_that_was_stopped_in_the_queue_never_began(
    types: Types, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer, _ = types(verb, SECOND)
    assert (code, [one["message"] for one in answer["findings"]]) == (0, [STOPPED])
    assert answer["findings"][0]["hint"] == "pipeline run --host here --config tiny"
    assert run([verb, SECOND]) == 0
    printed = "".join(capsys.readouterr())
    assert "HALFSTEP_TENSORBOARD_DIR" not in printed and "no known error" not in printed, printed


@pytest.mark.usefixtures("waiting")
def test_the_weights_of_a_queued_run_are_missing_until_it_has_ended(types: Types) -> None:
    code, answer, _ = types("pull", SECOND, "--weights")
    hints = {one["check"]: one["hint"] for one in answer["findings"]}
    assert (code, hints["adapter-missing"]) == (50, f"pipeline wait {SECOND}")


@pytest.mark.usefixtures("queue")
def test_stop_of_a_queued_run_pulls_nothing_and_says_that_the_others_are_queued(
    types: Types, capsys: pytest.CaptureFixture[str]
) -> None:
    code, answer, err = types("stop", SECOND)
    assert (code, answer["job"]["state"]) == (0, "stopped")
    assert f"{SECOND} was stopped before it began; it has no verified checkpoint" in err
    assert "not pulled" not in err and "pulling" not in err
    said = {one["message"] for one in answer["findings"]}
    assert said == {f"{FIRST} is still running on here", f"{THIRD} is still queued on here"}


@pytest.mark.usefixtures("waiting")
def test_the_report_of_a_queued_run_is_written_although_there_is_nothing_to_pull(types: Types) -> None:
    folder = Records(Path.cwd()).folder_named(SECOND)
    save_report(folder, RunReport(SECOND, "tiny", "here", Verdict.QUEUED))
    assert types("status", SECOND)[1]["job"]["state"] == "queued"
    code, answer, _ = types("report", SECOND)
    assert (code, answer["findings"]) == (0, [])
    assert "queued" in Path(answer["artifacts"]["report"]).read_text()


def test_the_output_of_a_queued_run_is_followed_after_the_reason_why_it_waits(queue: Jobs, tmp_path: Path) -> None:
    said = []

    def on_wait(message: str) -> None:
        said.append(message)
        (tmp_path / "enough").touch()

    records = Records(tmp_path)
    assert read_output(find_note(records, SECOND), records, bytes, follow=RetryPolicy(), on_wait=on_wait) == ()
    assert said == [WAITS]
    assert queue[SECOND].survey().state is JobState.SUCCEEDED


ENDED = JobResult(130, stopped=True)
BEGUN = Started(1, 1, "boot", started_unix=1.0)


@pytest.mark.parametrize(
    ("survey", "words"),
    [
        (RunSurvey("r", "c", "f", 1, JobState.RUNNING, waits="waits for x to end"), "not begun: it waits for x to end"),
        (
            RunSurvey("r", "c", "f", 1, JobState.RUNNING, waits="waits in Slurm's queue: Priority"),
            "not begun: it waits in Slurm's queue: Priority",
        ),
        (RunSurvey("r", "c", "f", 1, JobState.RUNNING), "not begun: it is starting"),
        (RunSurvey("r", "c", "f", 1, JobState.STOPPED, result=ENDED), "was stopped before it began"),
        (RunSurvey("r", "c", "f", 0, JobState.ABSENT), "r has not been started"),
        (RunSurvey("r", "c", "f", 1, JobState.RUNNING, BEGUN), ""),
        (RunSurvey("r", "c", "f", 1, JobState.STOPPED, BEGUN, ENDED), ""),
        (RunSurvey("r", "c", "f", 1, JobState.FAILED, result=JobResult(1)), ""),
    ],
)
def test_only_a_job_without_a_start_has_not_begun(survey: RunSurvey, words: str) -> None:
    found = judge_begun(RunNote("r", "titan", "c", "p-1", 0.0, name="r"), survey)
    assert [(one.check, one.severity) for one in found] == [("not-begun", Severity.WARNING)] * bool(words)
    assert all(one.message.endswith(words) for one in found)
