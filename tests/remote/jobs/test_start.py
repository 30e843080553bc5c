"""A job starts once, however often it is requested, and does not need the laptop afterwards."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import RemoteFault
from remote.link.local import local_host
from remote.link.reach import open_host
from remote.operations.jobs import follow_job, list_jobs, start_job
from remote.protocol.exits import ExitCode
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from remote.protocol.layout import ProjectLayout
from remote.protocol.values import encode
from tests.lab.processes import alive
from tests.lab.sshd import Sshd
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench
from tests.remote.jobs.own_files import own_files


def test_a_job_runs_to_its_end_and_its_result_says_so(bench: Bench):
    answer = bench.start("--steps", 3, steps=3)
    assert answer.fresh
    assert answer.state is JobState.RUNNING
    last = list(follow_job(bench.host, PROJECT, bench.run))[-1]
    assert last.state is JobState.SUCCEEDED
    assert last.result.exit == 0
    assert last.progress.step == 3
    run = bench.survey()
    assert (run.state, run.job, run.config, run.fingerprint) == (JobState.SUCCEEDED, 1, "tiny", "f" * 64)


def test_a_job_gets_the_documented_variables_and_folders(bench: Bench):
    Path(bench.workdir / "elsewhere").mkdir(parents=True)
    words = (
        "$HALFSTEP_RUN_DIR|$HALFSTEP_OUTPUT_DIR|$HALFSTEP_TENSORBOARD_DIR|$TENSORBOARD_LOGGING_DIR|"
        "$HALFSTEP_RESUME_FROM|$HALFSTEP_STEPS|$EXTRA|{output_dir}|{tensorboard_dir}|{resume_from}|{unknown}|{free_port}"
    )
    bench.start(
        "--print", words, steps=7, resume_from="/somewhere/checkpoint-3", environment={"EXTRA": "$HALFSTEP_NOT_SET x"}
    )
    until(lambda: bench.survey().result, "the end")
    root = bench.layout.root
    printed = bench.output().strip().split("|")
    assert printed[:6] == [root, f"{root}/checkpoints", *[f"{root}/tensorboard"] * 2, "/somewhere/checkpoint-3", "7"]
    assert printed[6:11] == [
        "$HALFSTEP_NOT_SET x",
        f"{root}/checkpoints",
        f"{root}/tensorboard",
        "/somewhere/checkpoint-3",
        "{unknown}",
    ]
    with socket.socket() as probe:
        probe.bind(("", int(printed[11])))
    assert bench.events("begin")[0]["cwd"] == f"{root}/code"


def test_a_missing_command_fails_with_its_name(bench: Bench):
    bench.python = "no-such-python"
    bench.start()
    result = until(lambda: bench.survey().result, "the end")
    assert result.exit == 127
    assert "no-such-python" in bench.output()


def test_FI_39_kill_9_of_agent_and_laptop_right_after_the_start_leaves_the_job_running(bench: Bench):
    go = bench.workdir / "go"
    laptop = subprocess.Popen(
        [sys.executable, "-c", LAPTOP, str(bench.workdir), json.dumps(_words(bench, go))],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    )
    started = json.loads(laptop.stdout.readline())
    for pid in (started["agent"], laptop.pid):
        os.kill(pid, signal.SIGKILL)
    laptop.wait()
    until(lambda: not alive(started["agent"]), "the agent's end")
    assert alive(started["supervisor"])
    assert bench.survey().state is JobState.RUNNING
    go.touch()
    assert until(lambda: bench.survey().result, "the result").exit == 0
    assert len(bench.events("begin")) == 1


@pytest.mark.ssh
def test_FI_39_over_ssh_the_job_outlives_its_session_the_server_and_the_agent(tmp_path: Path, sshd: Sshd):
    host = open_host(sshd.address())
    bench = Bench(host, sshd.home / "halfstep")
    go = tmp_path / "go"
    try:
        bench.start("--until", go)
        agent = int(host.run(["sh", "-c", "echo $PPID"]).stdout)
        assert sshd.kill_sessions() > 0
        until(lambda: not alive(agent), "the agent's end")
        sshd.stop()
        supervisor = json.loads(Path(bench.job().supervisor).read_text())["pid"]
        assert alive(supervisor)
        sshd.start()
        host = bench.host = open_host(sshd.address())
        assert bench.survey().state is JobState.RUNNING
        go.touch()
        assert until(lambda: bench.survey().result, "the result").exit == 0
        assert len(bench.events("begin")) == 1
    finally:
        go.touch()
        host.close()


LAPTOP = """
import json, sys, time
from remote.operations.jobs import start_job
from remote.link.local import local_host
from remote.protocol.job_requests import StartRequest
from remote.protocol.values import decode
host = local_host(sys.argv[1])
answer = start_job(host, decode(StartRequest, json.loads(sys.argv[2])))
agent = json.loads(host.run(["sh", "-c", "echo $PPID"]).stdout)
print(json.dumps({"agent": agent, "supervisor": answer.started.pid}), flush=True)
time.sleep(600)
"""


def _words(bench: Bench, go: Path) -> dict:
    return encode(StartRequest(PROJECT, bench.spec("--until", go), "tiny"))


def test_FI_40_a_second_start_after_a_lost_acknowledgement_finds_the_first_one(bench: Bench):
    go = bench.workdir / "go"
    first = bench.start("--until", go)
    second = bench.start("--until", go)
    assert (first.fresh, second.fresh) == (True, False)
    assert second.started == first.started
    go.touch()
    until(lambda: bench.survey().result, "the end")
    third = bench.start("--until", go)
    assert (third.fresh, third.state) == (False, JobState.SUCCEEDED)
    assert len(bench.events("begin")) == 1


def test_FI_40_ten_laptops_that_start_at_once_start_one_process(bench: Bench):
    # Each of them installs the payload too.
    shutil.rmtree(bench.workdir / "payload")
    go = bench.workdir / "go"
    request = StartRequest(PROJECT, bench.spec("--until", go), "tiny")
    answers = []

    def ask():
        host = local_host(str(bench.workdir))
        try:
            answers.append(start_job(host, request))
        finally:
            host.close()

    threads = [threading.Thread(target=ask) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(answer.fresh for answer in answers) == 1
    assert len({answer.started.child_pid for answer in answers}) == 1
    until(lambda: bench.events("begin"), "the trainer")
    assert len(bench.events("begin")) == 1


def test_another_job_of_a_running_run_is_refused_by_name(bench: Bench):
    bench.start("--until", bench.workdir / "go")
    with pytest.raises(RemoteFault, match="job 1 of tiny-01234567 is still running") as fault:
        bench.start(number=2)
    assert fault.value.exit_code is ExitCode.BUSY
    assert not Path(bench.job(2).spec).exists()


def test_a_resume_is_the_next_job_in_the_same_run(bench: Bench):
    bench.start("--exit", 3)
    until(lambda: bench.survey().result, "the end")
    bench.start(number=2, resume_from="checkpoints/checkpoint-2")
    until(lambda: bench.survey().state is JobState.SUCCEEDED, "the second end")
    assert [job.state for job in list_jobs(bench.host, PROJECT, bench.run)] == [JobState.FAILED, JobState.SUCCEEDED]
    assert [row["job"] for row in bench.events("begin")] == ["1", "2"]


def test_a_job_runs_in_a_copy_of_the_tree_made_at_its_start(bench: Bench):
    tree = bench.workdir / ProjectLayout(PROJECT).tree
    bench.host.write_bytes(f"{ProjectLayout(PROJECT).tree}/venv/marker", b"here\n")
    go = bench.workdir / "go"
    bench.start("--until", go)
    code = Path(bench.layout.code)
    assert (code / "venv" / "marker").read_bytes() == b"here\n"
    assert (code / "venv").is_symlink()
    assert not tree.is_symlink()


@pytest.mark.parametrize("name", ["../escape", "a/b", "", ".hidden", "x" * 200])
def test_a_run_name_that_leads_elsewhere_is_refused(bench: Bench, name: str):
    bench.run = name
    with pytest.raises(RemoteFault) as fault:
        bench.start()
    assert fault.value.exit_code is ExitCode.USAGE


def test_FI_58_secrets_reach_the_trainer_and_nothing_else(bench: Bench):
    canary = "hf_CANARY0123456789abcdef"
    bench.start("--print", "$HF_TOKEN", "--until", bench.workdir / "go", secrets=("HF_TOKEN",), request={
        "secrets": {"HF_TOKEN": canary, "NOT_NAMED": "other-" + canary},
    })  # fmt: skip
    begin = until(lambda: bench.events("begin"), "the trainer")[0]
    until(lambda: canary in bench.output(), "the trainer's own print")
    Path(bench.job().output).write_text("")
    assert f"HF_TOKEN={canary}".encode() in Path(f"/proc/{begin['pid']}/environ").read_bytes()
    assert b"NOT_NAMED" not in Path(f"/proc/{begin['pid']}/environ").read_bytes()
    started = bench.survey().started
    for name in ("cmdline", "environ"):
        assert canary.encode() not in Path(f"/proc/{started.pid}/{name}").read_bytes()
    for place in (bench.workdir, Path("/dev/shm"), Path(os.environ.get("XDG_RUNTIME_DIR", "/dev/shm"))):
        for path, content in own_files(place):
            assert canary.encode() not in content, path


def test_the_progress_of_an_earlier_job_is_not_that_of_the_next(bench: Bench):
    bench.start("--steps", 5, "--exit", 1, steps=5)
    until(lambda: bench.survey().result, "the end of the first job")
    assert bench.survey().progress.step == 5
    bench.start("--exit", 1, number=2, steps=5)
    assert {news.progress for news in follow_job(bench.host, PROJECT, bench.run)} == {None}
    until(lambda: bench.survey().result, "the end of the second job")
    assert (bench.survey().job, bench.survey().progress) == (2, None)


def test_SE_10_the_output_of_a_job_can_be_read_by_its_user_only(bench: Bench):
    bench.start("--steps", 1)
    until(lambda: bench.survey().result, "the end")
    assert os.stat(bench.job().output).st_mode & 0o077 == 0


def test_the_survey_has_the_inputs_of_the_first_and_of_the_newest_job(bench: Bench):
    bench.start("--steps", 1, steps=1)
    list(follow_job(bench.host, PROJECT, bench.run))
    assert (bench.survey().fingerprint, bench.survey().newest_fingerprint) == ("f" * 64, "f" * 64)
    start_job(
        bench.host, StartRequest(PROJECT, replace(bench.spec("--steps", 1, number=2), fingerprint="e" * 64), "tiny")
    )
    list(follow_job(bench.host, PROJECT, bench.run))
    assert (bench.survey().fingerprint, bench.survey().newest_fingerprint) == ("f" * 64, "e" * 64)
