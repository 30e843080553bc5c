"""One training on two nodes of a Slurm cluster: to its end, after a rank was killed, and after a stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.user import QUICK, User
from tests.e2e.waiting_project import confirm_host_file
from tests.lab.processes import processes_of
from tests.lab.slurm import Slurm, slurm_cluster
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.root, pytest.mark.timeout(1500)]
HALF = "projects/*/runs/*-2/checkpoints/checkpoint-2/halfstep-manifest.json"
PATIENT_S = 1200
RUN = ("run", "--host", "cluster", "--config", "tiny", *QUICK, "--json")
ADAPTER = "checkpoints/checkpoint-4/adapter_model.safetensors"


@pytest.fixture
def cluster(user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """Two nodes, and a host file that takes both."""
    with slurm_cluster(tmp_path / "slurm", monkeypatch, nodes=2) as running:
        user.environment.update(running.environment)
        hosts = user.project / "configs" / "hosts"
        hosts.mkdir(parents=True)
        lines = ("host: local", f"python: {sys.executable}", f"workdir: {user.home / 'work'}", "scheduler: slurm")
        (hosts / "cluster.yaml").write_text("\n".join((*lines, "slurm: {nodes: 2, extra: [--exclusive]}\n")))
        confirm_host_file(user, "cluster")
        yield running


def runs(user: User) -> list[Path]:
    return sorted((user.home / "work").glob("projects/*/runs/*"))


def rank(run: Path, number: int) -> int:
    """Return the process of that rank."""
    wanted = f"RANK={number}".encode()
    found = [
        pid
        for pid in processes_of(run)
        if wanted in (words := Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"))
        and b"TORCHELASTIC_RUN_ID=none" in words
    ]
    return found[0]


def test_two_nodes_train_one_run_and_resume_it_after_a_rank_was_killed(user: User, cluster: Slurm) -> None:
    first = user.run_pipeline(*RUN, patience_s=PATIENT_S)
    assert first.code == 0, first.err + first.out
    (run,) = runs(user)
    whole = (run / ADAPTER).read_bytes()
    assert (run / "adapter" / "adapter_model.safetensors").read_bytes() == whole
    states = {path.name for path in (run / "checkpoints" / "checkpoint-4").glob("rng_state*")}
    assert states == {"rng_state_0.pth", "rng_state_1.pth"}
    output = (run / "jobs" / "1" / "output.log").read_text()
    assert output.count("step 4/4  loss") == 1, output
    local = user.project / ".halfstep" / "runs"
    logs = {path.name for path in local.glob("*/jobs/1/ranks/*")}
    assert "cluster-rank0.log" in logs
    assert user.run_pipeline(*RUN, patience_s=PATIENT_S).states["train"] == "skipped"

    again = user.start_pipeline(*RUN, "--force", "train")
    half = until(
        lambda: next((user.home / "work").glob(HALF), None),
        "a checkpoint",
        seconds=PATIENT_S,
    )
    second = half.parents[2]
    os.kill(rank(second, 1), signal.SIGKILL)
    out, err = again.communicate(timeout=PATIENT_S)
    assert again.returncode in (40, 41), (out, err)
    resumed = user.run_pipeline(*RUN, patience_s=PATIENT_S)
    assert resumed.code == 0, resumed.err + resumed.out
    assert runs(user) == [run, second]
    assert (second / ADAPTER).read_bytes() == whole


def test_a_stop_lets_the_processes_of_both_nodes_save_a_checkpoint(user: User, cluster: Slurm) -> None:
    words = ("--host", "cluster", "--config", "tiny", *QUICK, "--set", "train.max_steps=400", "--set")
    running = user.start_pipeline("run", *words, "train.save_steps=300")
    output = until(lambda: [run / "jobs" / "1" / "output.log" for run in runs(user)], "a run", seconds=PATIENT_S)[0]
    until(lambda: output.exists() and "step 2/400  loss" in output.read_text(), "two steps", seconds=PATIENT_S)
    assert user.run_pipeline("stop", patience_s=PATIENT_S).code == 0
    running.communicate(timeout=PATIENT_S)
    (run,) = runs(user)
    (saved,) = run.glob("checkpoints/checkpoint-*/halfstep-manifest.json")
    assert {path.name for path in saved.parent.glob("rng_state*")} == {"rng_state_0.pth", "rng_state_1.pth"}
    assert not cluster.ask("squeue", "--noheader")
