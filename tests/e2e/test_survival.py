"""The laptop dies, the connection is cut, the user stops it: the job continues or resumes, and never runs twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.user import User, kill
from tests.lab.sshd import Sshd
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.ssh, pytest.mark.timeout(600)]
STEPS = 24
LONG = ("--set", f"train.max_steps={STEPS}", "--set", "train.save_steps=4", "--set", "train.evaluate=false")
PATIENCE_S = 240.0


def run_folders(server: Sshd) -> list[Path]:
    return sorted((server.home / "halfstep" / "projects").glob("*/runs/*"))


def step_of(folder: Path) -> int:
    try:
        return int(json.loads((folder / "progress.json").read_text())["step"])
    except (OSError, ValueError, KeyError):
        return 0


def under_way(server: Sshd, step: int) -> Callable[[], bool]:
    return lambda: any(step_of(folder) >= step for folder in run_folders(server))


def trainers(server: Sshd) -> list[int]:
    """Training processes with a working folder in the server's home."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            inside = str((folder / "cwd").readlink()).startswith(str(server.home))
        except OSError:
            continue
        if inside and b"train" in words:
            found.append(int(folder.name))
    return found


def test_a_killed_laptop_leaves_one_job_to_which_the_next_run_attaches(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd)
    words = ("run", "--host", "titan", "--config", "tiny", *LONG)
    first = user.start_pipeline(*words)
    until(under_way(sshd, 1), "the first step", PATIENCE_S)
    kill(first)
    [folder] = run_folders(sshd)
    [trainer] = trainers(sshd)
    again = user.run_pipeline(*words, "--json")
    assert again.code == 0, again.err + again.out
    assert run_folders(sshd) == [folder], "a second run was started"
    assert [job.name for job in (folder / "jobs").iterdir()] == ["1"], "a second job was started"
    assert not Path(f"/proc/{trainer}").exists()
    assert again.json["job"]["step"] == STEPS


def test_stop_ends_every_process_and_keeps_a_checkpoint_that_run_resumes_from(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd)
    words = ("run", "--host", "titan", "--config", "tiny", *LONG)
    started = user.run_pipeline(*words, "--detach", "--json")
    assert started.code == 0, started.err + started.out
    assert started.states["train"] == "running"
    until(under_way(sshd, 5), "the fifth step", PATIENCE_S)
    stopped = user.run_pipeline("stop", "--json")
    assert stopped.code == 0, stopped.err + stopped.out
    assert trainers(sshd) == []
    assert stopped.json["job"]["state"] == "stopped"
    assert user.run_pipeline("wait").code == 42
    [folder] = run_folders(sshd)
    saved = [path.name for path in (folder / "checkpoints").glob("checkpoint-*")]
    assert saved
    reached = step_of(folder)
    assert reached < STEPS

    resumed = user.run_pipeline(*words, "--json")
    assert resumed.code == 0, resumed.err + resumed.out
    assert resumed.json["job"]["step"] == STEPS
    assert sorted(job.name for job in (folder / "jobs").iterdir()) == ["1", "2"]
    log = (folder / "jobs" / "2" / "output.log").read_text()
    assert f"step 1/{STEPS} " not in log, "the second job began at step 1"


def test_ctrl_c_while_training_keeps_the_job_and_prints_how_to_reattach(user: User, sshd: Sshd) -> None:
    user.write_host_file("titan", sshd)
    first = user.start_pipeline("run", "--host", "titan", "--config", "tiny", *LONG)
    until(under_way(sshd, 1), "the first step", PATIENCE_S)
    began = time.monotonic()
    os.kill(first.pid, signal.SIGINT)
    out, err = first.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - began < 5
    assert first.returncode == 130, (out, err)
    output = out.decode() + err.decode()
    assert "pipeline attach" in output
    assert "pipeline stop" in output
    assert trainers(sshd), "Ctrl-C ended the job"
    assert user.run_pipeline("stop", "--grace", "0").code == 0
    assert trainers(sshd) == []
