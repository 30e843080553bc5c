"""`wait` follows the jobs of a run one after another, but not a job that a host never lets end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.hosts.open_run import OpenRun
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote
from pipeline.show.screen import Screen
from pipeline.verbs.wait import FOLLOWED, MOST_JOBS, follow_jobs
from remote.errors import Garbled
from remote.host import Json
from remote.protocol.jobs import JobNews, JobState, RunSurvey
from remote.protocol.runs import RunsSurvey
from remote.protocol.values import encode
from tests.lab.fake_host import FakeHost

RUN = RunSurvey("plain-0123abcd", "plain", "f", 1, JobState.RUNNING)


class Surveyed(FakeHost):
    """A host on which each followed job ends, and which then reports the next of its `surveys`."""

    surveys: list[RunSurvey]

    def ask(self, op: str, args: object = None, *, timeout_s: float = 60.0) -> Json:
        run = self.surveys.pop(0) if len(self.surveys) > 1 else self.surveys[0]
        answer: Json = encode(RunsSurvey(1.0, (run,)))
        return answer


def follow(root: Path, *surveys: RunSurvey) -> tuple[RunSurvey | None, int]:
    """Return the last survey, or None if the host's answers contradict each other; and the number of followed jobs."""
    ended = encode(JobNews(1, JobState.SUCCEEDED))
    host = Surveyed(streams={"job.wait": [ended]})
    host.surveys = list(surveys)
    opened = OpenRun(RunNote(RUN.run, "titan", "plain", "p-1", 1.0), Records(root), host)
    try:
        return follow_jobs(opened, RUN, Screen()), len(host.calls)
    except Garbled:
        return None, len(host.calls)


def job(number: int, state: JobState = JobState.RUNNING) -> RunSurvey:
    return replace(RUN, job=number, state=state)


@pytest.mark.parametrize("jobs", [1, 2, 10])
def test_the_jobs_of_a_run_are_followed_one_after_another(tmp_path: Path, jobs: int) -> None:
    surveys = [*(job(number) for number in range(2, jobs + 1)), job(jobs, JobState.SUCCEEDED)]
    assert follow(tmp_path, *surveys) == (surveys[-1], jobs)


def test_BI_53_a_job_that_has_ended_and_still_runs_is_followed_a_few_times(tmp_path: Path) -> None:
    assert follow(tmp_path, RUN) == (None, FOLLOWED)


def test_BI_53_a_run_whose_jobs_never_end_is_not_followed_without_end(tmp_path: Path) -> None:
    assert follow(tmp_path, *(job(number) for number in range(2, MOST_JOBS + 50))) == (None, MOST_JOBS)
