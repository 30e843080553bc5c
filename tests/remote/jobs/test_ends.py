"""The result of a job states how it ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from remote.payload.jobs.oom import parse_cgroup
from remote.payload.jobs.verdict import Evidence, has_failed_rank, judge_end
from remote.protocol.jobs import JobResult, JobState, Progress, judge_state
from tests.lab.processes import alive
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import Bench

TERM, KILL = signal.SIGTERM, signal.SIGKILL
OOM = "killed by the kernel's out-of-memory killer: host memory, not GPU memory"
UNSEEN = "ended after its supervisor was killed: its exit status is unknown and its work is not complete"


def exited(code: int) -> int:
    return code << 8


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        (Evidence(exited(0)), JobResult(0)),
        (Evidence(exited(3)), JobResult(3, reason="exit status 3")),
        (Evidence(KILL), JobResult(137, KILL, reason="ended by signal 9 (SIGKILL)")),
        (
            Evidence(TERM, stop_requested=True, sigterm_received=True),
            JobResult(143, TERM, stopped=True, reason="stopped on request"),
        ),
        (
            Evidence(exited(0), stop_requested=True, sigterm_received=True),
            JobResult(0, stopped=True, reason="stopped on request"),
        ),
        (
            Evidence(exited(0), sigterm_received=True, checkpoint="checkpoints/checkpoint-4"),
            JobResult(0, preempted=True, reason="ended by SIGTERM; checkpoints/checkpoint-4 is kept"),
        ),
        (Evidence(exited(0), sigterm_received=True, progress=Progress(9), steps=9), JobResult(0)),
        (Evidence(exited(0), stop_requested=True, sigterm_received=True, progress=Progress(9), steps=9), JobResult(0)),
        (
            Evidence(exited(0), sigterm_received=True),
            JobResult(0, signal=TERM, reason="ended by SIGTERM; before a checkpoint was complete"),
        ),
        (
            Evidence(exited(42), checkpoint="checkpoints/checkpoint-4"),
            JobResult(42, preempted=True, reason="ended by SIGTERM; checkpoints/checkpoint-4 is kept"),
        ),
        (
            Evidence(KILL, oom_kills=1),
            JobResult(137, KILL, oom_killed=True, reason=OOM),
        ),
        (Evidence(exited(0), oom_kills=1), JobResult(0)),
        (Evidence(None, progress=Progress(9), steps=9, adapter=True), JobResult(0)),
        (
            Evidence(None, progress=Progress(8), steps=9, adapter=True),
            JobResult(1, reason=UNSEEN),
        ),
        (
            Evidence(exited(1), unkillable=2),
            JobResult(
                1, reason="exit status 1; 2 of its processes cannot be killed (another user's, or stuck in the kernel)"
            ),
        ),
    ],
)
def test_the_end_is_judged_from_the_evidence(seen: Evidence, wanted: JobResult):
    assert judge_end(seen, 0.0) == wanted


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (JobResult(0), JobState.SUCCEEDED),
        (JobResult(1), JobState.FAILED),
        (JobResult(0, stopped=True), JobState.STOPPED),
        (JobResult(0, preempted=True), JobState.FAILED),
        (JobResult(0, signal=15), JobState.FAILED),
    ],
)
def test_only_a_run_with_all_its_steps_succeeds(result: JobResult, state: JobState):
    assert judge_state(started=None, result=result, alive=False) is state


def test_exit_status_and_signal_are_distinguished(bench: Bench):
    bench.start("--exit", 137)
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.signal) == (137, 0)
    bench.start("--until", "/never", number=2)
    os.kill(until(lambda: bench.events("begin")[1:], "the second trainer")[0]["pid"], signal.SIGKILL)
    result = until(lambda: bench.survey().result, "the second end")
    assert (result.exit, result.signal, result.reason) == (137, 9, "ended by signal 9 (SIGKILL)")


@pytest.mark.parametrize("how", ["exit", "kill"])
def test_FI_43_workers_of_a_launcher_that_is_gone_end_with_the_job(bench: Bench, how: str):
    go = bench.workdir / "go"
    bench.start("--workers", 2, "--leave-workers", "--until", go, "--exit", 3)
    until(lambda: len(bench.events("worker")) == 2, "the workers")
    workers = [row["worker"] for row in bench.events("worker")]
    if how == "kill":
        os.kill(bench.events("begin")[0]["pid"], signal.SIGKILL)
    else:
        go.touch()
    result = until(lambda: bench.survey().result, "the end")
    assert (result.exit, result.signal) == ((3, 0) if how == "exit" else (137, 9))
    assert not any(alive(pid) for pid in workers)


@pytest.mark.root
def test_FI_44_the_out_of_memory_killer_is_named(bench: Bench):
    group = Path("/sys/fs/cgroup/memory") / f"halfstep-test-{os.getpid()}"
    if os.getuid() != 0 or not group.parent.is_dir() or not os.access(group.parent, os.W_OK):
        pytest.skip("no memory control group of version 1 that we may change")
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(64 * 2**20))
        # The whole job, with its supervisor, is in the group, as in a container with a limit.
        agent = int(bench.host.run(["sh", "-c", "echo $PPID"]).stdout)
        (group / "cgroup.procs").write_text(str(agent))
        bench.start("--eat", 200)
        result = until(lambda: bench.survey().result, "the end")
        assert result.oom_killed
        assert result.signal == signal.SIGKILL
        assert "out-of-memory" in result.reason
    finally:
        bench.host.close()
        until(lambda: not (group / "cgroup.procs").read_text().strip(), "an empty group")
        group.rmdir()


def test_the_control_groups_of_both_versions_are_read():
    assert parse_cgroup("5:cpu,cpuacct:/a\n4:memory:/b\n0::/c\n") == {
        "cpu": "/a",
        "cpuacct": "/a",
        "memory": "/b",
        "": "/c",
    }


def test_no_temporary_file_is_left_in_a_finished_run(bench: Bench):
    bench.start("--steps", 2)
    until(lambda: bench.survey().result, "the end")
    names = [path.name for path in Path(bench.layout.root).rglob("*")]
    assert not [name for name in names if name.startswith((".hs-part-", "launch-"))]


@pytest.mark.parametrize("status", [42, 143])
@pytest.mark.parametrize(
    ("code", "failed"), [(-9, True), (1, True), (-11, True), (-15, False), (42, False), (143, False)]
)
def test_a_node_that_srun_ends_after_a_rank_of_another_failed_does_not_make_the_job_preempted(
    status: int, code: int, failed: bool
):
    output = f"Root Cause (first observed failure):\n  rank      : 1\n  exitcode  : {code} (pid: 11)".encode()
    assert has_failed_rank(output) is failed
    result = judge_end(Evidence(exited(status), checkpoint="checkpoint-2", rank_failed=failed), 0.0)
    assert (result.preempted, result.exit) == (not failed, status)
    stopped = judge_end(
        Evidence(exited(status), sigterm_received=True, checkpoint="checkpoint-2", rank_failed=failed), 0.0
    )
    assert stopped.preempted


def test_torchrun_reports_a_killed_rank_in_the_form_that_is_searched_for():
    from torch.distributed.elastic.multiprocessing import errors

    failure = errors.ProcessFailure(local_rank=0, pid=11, exitcode=-9, error_file="")
    assert has_failed_rank(str(errors.ChildFailedError("train.py", {0: failure})).encode())
