"""Several runs on a host with `scheduler: slurm`: one array with a task for each, on a real cluster of two nodes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.operations.jobs import follow_job, list_jobs, stop_job, submit_held
from remote.payload.jobs.slurm import render_array
from remote.protocol.jobs import JobState
from remote.protocol.slurm import ArrayRequest, HeldJob
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

WHOLE_NODE = ("--nodes=1", "--exclusive")
HELD = {"backend": "slurm", "slurm": WHOLE_NODE, "hold": True}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    with slurm_cluster(tmp_path / "slurm", monkeypatch, nodes=2) as running:
        yield running


def held(bench: Bench, number: int, *words: object, **more: object) -> Bench:
    one = replace(bench, run=f"tiny-{number}1234567")
    assert one.start(*words, request={**HELD, **more}, secrets=("HF_TOKEN",)).state is JobState.ABSENT
    return one


def submit(runs: list[Bench]) -> None:
    jobs = tuple(HeldJob(one.run, 1, {"HF_TOKEN": f"hf_{one.run}"}) for one in runs)
    submit_held(runs[0].host, ArrayRequest(PROJECT, jobs))


def slurm_job(bench: Bench) -> str:
    return str(json.loads(Path(bench.job().submitted).read_text())["slurm_job"])


@pytest.mark.root
def test_three_runs_are_one_array_on_two_nodes_and_one_failure_does_not_stop_the_others(
    bench: Bench, cluster: Slurm, tmp_path: Path
):
    words = ("--steps", 3, "--until", tmp_path / "enough", "--print", "$HF_TOKEN $SLURMD_NODENAME")
    runs = [held(bench, number, *words, "--exit", 3 if number == 2 else 0) for number in (1, 2, 3)]
    submit(runs)
    submit(runs)
    array = slurm_job(runs[0]).partition("_")[0]
    assert [slurm_job(one) for one in runs] == [f"{array}_0", f"{array}_1", f"{array}_2"]
    until(lambda: sum(len(one.events("begin")) for one in runs) == 2, "two tasks")
    waiting = next(one for one in runs if not one.events("begin"))
    assert waiting.survey().state is JobState.RUNNING
    assert "waits in Slurm's queue: PENDING" in waiting.survey().waits
    (tmp_path / "enough").touch()
    until(lambda: all(one.survey().result for one in runs), "three results")
    assert [one.survey().result.exit for one in runs] == [0, 3, 0]
    assert [one.output().split()[0] for one in runs] == [f"hf_{one.run}" for one in runs]
    assert {one.output().split()[1] for one in runs} == set(cluster.nodes)
    assert [Path(one.job().supervisor_log).exists() for one in runs] == [True, True, True]
    assert list(bench.workdir.rglob("launch-*")) == []


@pytest.mark.root
def test_one_task_can_be_stopped_and_another_continues_after_its_time_limit(
    bench: Bench, cluster: Slurm, tmp_path: Path
):
    words = ("--steps", 5, "--until", tmp_path / "enough", "--on-term", "save")
    runs = [held(bench, number, *words, max_jobs=2) for number in (1, 2, 3)]
    submit(runs)
    until(lambda: sum(len(one.events("begin")) for one in runs) == 2, "two tasks")
    waiting = next(one for one in runs if not one.events("begin"))
    stopped = stop_job(bench.host, PROJECT, waiting.run, grace_s=1)
    assert (stopped.state, stopped.result.reason) == (JobState.STOPPED, "removed from Slurm's queue before it began")
    ends, continues = (one for one in runs if one is not waiting)
    until(lambda: continues.survey().progress and continues.survey().progress.step == 5, "every step")
    cluster.ask("scancel", "--signal=USR1", "--batch", slurm_job(continues))
    until(lambda: len(continues.events("begin")) == 2, "the second job")
    (tmp_path / "enough").touch()
    assert list(follow_job(bench.host, PROJECT, continues.run))[-1].number == 2
    until(lambda: ends.survey().result, "the end")
    assert [len(list_jobs(bench.host, PROJECT, one.run)) for one in (ends, continues)] == [1, 2]
    assert (ends.survey().state, continues.survey().state) == (JobState.SUCCEEDED, JobState.SUCCEEDED)


@pytest.mark.root
def test_runs_with_different_options_are_submitted_separately_and_a_refusal_leaves_no_secret(
    bench: Bench, cluster: Slurm
):
    runs = [held(bench, 1), held(bench, 2, slurm=("--begin=now+1hour",))]
    submit(runs)
    assert len({slurm_job(one).partition("_")[0] for one in runs}) == 2
    refused = [held(bench, number, slurm=("--partition=nowhere",)) for number in (3, 4)]
    with pytest.raises(RemoteFault, match=r"sbatch: .*partition"):
        submit(refused)
    assert [list(Path(one.job().root).glob("launch-*")) for one in refused] == [[], []]
    assert refused[0].survey().state is JobState.ABSENT


def test_the_script_of_an_array_chooses_the_supervisor_by_the_number_of_the_task():
    argvs = (["python3", "a b"], ["python3", "it's"])
    batch = render_array("name", "/a 100%/arrays", argvs, ("--gpus=1",), 60.0)
    assert batch.options == (
        "--job-name=name",
        "--output=/a 100%%/arrays/%a.log",
        "--signal=B:USR1@90",
        "--no-requeue",
        "--array=0-1",
        "--gpus=1",
    )
    assert batch.script.splitlines() == [
        "#!/bin/sh",
        'case "$SLURM_ARRAY_TASK_ID" in',
        f"0) exec {shlex.join(argvs[0])} ;;",
        f"1) exec {shlex.join(argvs[1])} ;;",
        "esac",
    ]


@pytest.mark.root
def test_a_stop_of_one_waiting_task_leaves_the_others_in_the_queue(bench: Bench, cluster: Slurm) -> None:
    """With --state=PENDING, scancel of Slurm 22.05 cancels every task that Slurm has not split off the array yet."""
    runs = [held(bench, number, slurm=("--begin=now+1hour",)) for number in (1, 2, 3)]
    submit(runs)
    assert stop_job(bench.host, PROJECT, runs[1].run, grace_s=1).state is JobState.STOPPED
    assert [one.survey().state for one in runs] == [JobState.RUNNING, JobState.STOPPED, JobState.RUNNING]
    array = slurm_job(runs[0]).partition("_")[0]
    assert cluster.ask("squeue", "--noheader", "--array", "--format=%i").split() == [f"{array}_0", f"{array}_2"]


@pytest.mark.root
def test_an_option_without_its_value_is_refused_by_sbatch(bench: Bench, cluster: Slurm) -> None:
    runs = [held(bench, number, slurm=("--comment",)) for number in (1, 2)]
    with pytest.raises(RemoteFault, match="requires an argument"):
        submit(runs)
    assert cluster.ask("squeue", "--noheader") == ""


@pytest.mark.root
def test_an_array_whose_number_was_lost_is_found_by_its_name(
    bench: Bench, cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lost = shutil.which("sbatch"), tmp_path / "lost" / "sbatch"
    lost.parent.mkdir()
    lost.write_text(f'#!/bin/sh\n{real} "$@" > /dev/null; echo "sbatch: error: Socket timed out" >&2; exit 1\n')
    lost.chmod(0o755)
    monkeypatch.setenv("PATH", f"{lost.parent}:{os.environ['PATH']}")
    runs = [held(bench, number, "--steps", 1, "--print", "$HF_TOKEN") for number in (1, 2)]
    submit(runs)
    assert [one.partition("_")[2] for one in map(slurm_job, runs)] == ["0", "1"]
    until(lambda: all(one.survey().result for one in runs), "two results")
    assert [one.output().split()[0] for one in runs] == [f"hf_{one.run}" for one in runs]
