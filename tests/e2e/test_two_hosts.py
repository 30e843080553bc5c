"""One training on two hosts with gloo: to its end, after a kill, and after a stop."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.user import QUICK, User
from tests.lab.processes import processes_of
from tests.lab.sshd import Sshd
from tests.lab.wait import until

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")
RUN = ("run", "--host", "a,b", "--config", "tiny", *QUICK)
pytestmark = [pytest.mark.train, pytest.mark.ssh, pytest.mark.timeout(1800)]
PATIENCE_S = 900


@pytest.fixture
def servers(user: User, start_sshd: Callable[..., Sshd]) -> tuple[Sshd, Sshd]:
    """Two hosts that reach each other, each with a home of its own."""
    a, b = start_sshd("a"), start_sshd("b", listen="127.0.0.2")
    user.write_host_file("a", a)
    user.write_host_file("b", b)
    return a, b


def run_folder(server: Sshd, run: str) -> Path:
    (folder,) = (server.home / "halfstep" / "projects").glob(f"*/runs/{run}")
    return folder


def adapter_of(server: Sshd, run: str, place: str = "checkpoints/checkpoint-4") -> bytes:
    return (run_folder(server, run) / place / "adapter_model.safetensors").read_bytes()


def test_two_hosts_train_one_run_and_resume_it_after_one_was_killed(user: User, servers: tuple[Sshd, Sshd]) -> None:
    first = user.run_pipeline(*RUN, "--json", patience_s=PATIENCE_S)
    assert first.code == 0, first.err + first.out
    assert first.states == dict.fromkeys(STAGES, "done")
    name = first.json["run"]
    assert [(one["host"], one["job"]) for one in first.json["members"]] == [("a", "succeeded"), ("b", "succeeded")]
    whole = adapter_of(servers[0], name)
    assert adapter_of(servers[1], name) == whole == adapter_of(servers[0], name, "adapter")
    for server in servers:
        states = {path.name for path in (run_folder(server, name) / "checkpoints" / "checkpoint-4").glob("rng_state*")}
        assert states == {"rng_state_0.pth", "rng_state_1.pth"}
    local = user.project / ".halfstep" / "runs"
    logs = {path.name for path in local.glob("*/jobs/1/ranks/*")}
    assert logs == {"a-rank0.log", "b-rank1.log"}

    second = user.run_pipeline(*RUN, "--json", patience_s=PATIENCE_S)
    assert (second.code, second.states) == (0, dict.fromkeys(STAGES, "skipped")), second.err
    assert user.run_pipeline("status", "--json").json["run"] == name

    again = user.start_pipeline(*RUN, "--force", "train")
    half = until(
        lambda: next(iter(servers[1].home.glob("**/*-2/checkpoints/checkpoint-2/halfstep-manifest.json")), None),
        "a checkpoint on the second host",
        seconds=PATIENCE_S,
    )
    for pid in processes_of(half.parents[2]):
        os.kill(pid, signal.SIGKILL)
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode in (40, 41), (out, err)
    resumed = user.run_pipeline(*RUN, "--json", patience_s=PATIENCE_S)
    assert resumed.code == 0, resumed.err + resumed.out
    assert "from step 2 on all hosts" in resumed.err
    assert resumed.json["run"].endswith("-2")
    assert adapter_of(servers[0], f"{name}-2") == adapter_of(servers[1], f"{name}-2") == whole


def test_a_shared_workdir_is_refused_and_nothing_keeps_running(user: User, servers: tuple[Sshd, Sshd]) -> None:
    shared = servers[0].home / "halfstep"
    user.write_host_file("b", servers[1], workdir=shared)
    result = user.run_pipeline(*RUN, "--json", patience_s=PATIENCE_S)
    assert result.code == 20, result.err + result.out
    assert "same machine with the same workdir" in result.json["findings"][0]["message"]
    assert not list(shared.glob("projects/*/runs/*/jobs"))


def test_FI_43_a_killed_process_is_started_again_as_configured_and_continues_from_the_checkpoint(user: User) -> None:
    quick = ("--config", "tiny", *QUICK, "--set", "processes=2")
    words = ("run", "--host", "local", *quick)
    whole = user.run_pipeline(*words, "--json", patience_s=PATIENCE_S)
    assert whole.code == 0, whole.err
    runs = user.home / "halfstep" / "projects"
    again = user.start_pipeline(*words, "--set", "restarts=1", "--force", "train")
    half = until(
        lambda: next(iter(runs.glob("*/runs/*-2/checkpoints/checkpoint-2/halfstep-manifest.json")), None),
        "a checkpoint",
        seconds=PATIENCE_S,
    )
    run = half.parents[2]
    ranks = [pid for pid in processes_of(run) if b"RANK=1" in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")]
    os.kill(ranks[0], signal.SIGKILL)
    out, err = again.communicate(timeout=PATIENCE_S)
    assert again.returncode == 0, (out, err)
    first, second = (runs.glob(f"*/runs/{name}/adapter/adapter_model.safetensors") for name in ("*[!-]???????", "*-2"))
    weights = {path.parents[1].name: path.read_bytes() for path in (*first, *second)}
    assert weights[run.name] == weights[run.name.removesuffix("-2")]
    assert "attempt_1" in {path.name for path in (run / "jobs" / "1" / "ranks").glob("*/*")}
