"""SE-20: if two projects on one host start the same work, it is one run, because a run id is a digest of the work."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from remote.link.local import local_host
from remote.operations.jobs import follow_job, join_run, start_job, stop_job, take_survey
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState, RunSurvey, StartAnswer
from remote.protocol.layout import ProjectLayout
from remote.protocol.survey import SurveyRequest
from remote.pull.log import read_log
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

OTHER = "speech-11111111"


def started(bench: Bench, project: str, *words: object, number: int = 1) -> StartAnswer:
    return start_job(bench.host, StartRequest(project, bench.spec(*words, number=number), "tiny"))


def survey_of(bench: Bench, project: str) -> RunSurvey:
    found = take_survey(bench.host, SurveyRequest(project, bench.python)).run(bench.run)
    assert found is not None
    return found


def place_of(bench: Bench, project: str) -> Path:
    return bench.workdir / ProjectLayout(project).run(bench.run).root


def test_SE_20_a_start_of_the_same_work_in_another_project_joins_the_first_one(bench: Bench) -> None:
    first = started(bench, PROJECT, "--steps", 3, "--until", "/never")
    second = started(bench, OTHER, "--steps", 3, "--until", "/never")
    assert first.fresh and not second.fresh and second.started == first.started
    until(lambda: survey_of(bench, OTHER).progress, "its steps")
    assert survey_of(bench, OTHER).state is JobState.RUNNING
    stop_job(bench.host, OTHER, bench.run, grace_s=0)
    assert [survey_of(bench, key).state for key in (PROJECT, OTHER)] == [JobState.STOPPED] * 2
    assert len(bench.events("begin")) == 1


def test_SE_20_of_starts_at_the_same_moment_one_trains(bench: Bench) -> None:
    barrier, answers = threading.Barrier(4), []
    spec = bench.spec("--steps", 2, "--print", "trained")

    def start(project: str) -> None:
        host = local_host(str(bench.workdir))
        barrier.wait()
        answers.append(start_job(host, StartRequest(project, spec, "tiny")))
        host.close()

    threads = [threading.Thread(target=start, args=(f"speech-{number:08d}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.fresh for answer in answers) == [False, False, False, True]
    folders = [place_of(bench, f"speech-{number:08d}") for number in range(4)]
    assert sum(folder.is_symlink() for folder in folders) == 3
    for number in range(4):
        *_, last = follow_job(bench.host, f"speech-{number:08d}", bench.run)
        assert last.state is JobState.SUCCEEDED
    log = bytearray()
    read_log(bench.host, "speech-00000003", bench.run, log.extend)
    assert b"trained" in log


def test_SE_20_a_run_whose_folder_was_removed_is_started_anew(bench: Bench) -> None:
    started(bench, PROJECT, "--steps", 1)
    started(bench, OTHER, "--steps", 1)
    until(lambda: survey_of(bench, OTHER).result, "the end")
    shutil.rmtree(bench.workdir / ProjectLayout(PROJECT).root)
    assert started(bench, OTHER, "--steps", 1).fresh
    until(lambda: survey_of(bench, OTHER).result, "the end")
    assert not place_of(bench, OTHER).is_symlink()


@pytest.mark.parametrize("run", ["tiny-89abcdef"])
def test_other_work_has_a_run_of_its_own(bench: Bench, run: str) -> None:
    assert started(bench, PROJECT, "--steps", 1).fresh
    bench.run = run
    assert started(bench, OTHER, "--steps", 1).fresh
    until(lambda: survey_of(bench, OTHER).result, "the end")
    assert os.listdir(bench.workdir / ProjectLayout(OTHER).runs) == [run]


def test_SE_20_a_run_of_another_project_is_added_without_a_start(bench: Bench) -> None:
    assert not join_run(bench.host, OTHER, bench.run)
    assert not place_of(bench, OTHER).exists()
    started(bench, PROJECT, "--steps", 3, "--until", "/never")
    assert join_run(bench.host, OTHER, bench.run) and not join_run(bench.host, OTHER, bench.run)
    assert not join_run(bench.host, PROJECT, bench.run) and not place_of(bench, PROJECT).is_symlink()
    until(lambda: survey_of(bench, OTHER).progress, "its steps")
    stop_job(bench.host, OTHER, bench.run, grace_s=0)
    assert len(bench.events("begin")) == 1


def test_SE_20_a_removed_run_of_another_project_is_not_added(bench: Bench) -> None:
    started(bench, PROJECT, "--steps", 1)
    assert join_run(bench.host, OTHER, bench.run)
    until(lambda: survey_of(bench, OTHER).result, "the end")
    shutil.rmtree(bench.workdir / ProjectLayout(PROJECT).root)
    assert not join_run(bench.host, OTHER, bench.run)
    assert not place_of(bench, OTHER).exists()
