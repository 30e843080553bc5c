"""The TCP ports that a training of several processes on one host opens."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from tests.e2e.user import QUICK, User
from tests.e2e.waiting_project import WaitingProject, write_waiting_project
from tests.lab.ports import listening_of
from tests.lab.processes import processes_of
from tests.lab.wait import until

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
PATIENCE_S = 600
GROUP = 'torch.distributed.init_process_group("gloo")\n'


def ports_of(workdir: Path) -> set[tuple[str, int]]:
    """Return the addresses on which the processes of the jobs of that workdir listen, including torchrun."""
    return listening_of(set(processes_of(workdir)))


def test_a_script_of_several_processes_opens_ports_on_the_loopback_interface_only(user: User) -> None:
    waiting: WaitingProject = write_waiting_project(user)
    private = user.home / "halfstep"
    user.home.chmod(0o700)
    user.environment["XDG_RUNTIME_DIR"] = str(user.home)
    script = user.project / "train.py"
    script.write_text(script.read_text().replace("import torch\n", f"import torch\n\n{GROUP}", 1))
    running = user.start_pipeline("run", "--host", "one", "--config", "plain", "--set", "processes=2")
    until(lambda: len(waiting.trainings) == 2, "both processes", seconds=PATIENCE_S)
    found = ports_of(waiting.workdir)
    meeting = list(private.iterdir())
    waiting.go()
    _, err = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, err
    assert len(found) >= 2, "gloo's ports"
    assert {address for address, _ in found} == {"127.0.0.1"}
    kinds = sorted(path.name.split("-")[2:3] for path in meeting)
    assert kinds == [[], ["key"], ["store"]], "the rendezvous of torchrun, the key, and the store of the group"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700, "other users cannot reach these files"
    assert not list(private.iterdir()), "the files are removed"


def test_the_built_in_trainer_with_several_processes_opens_ports_on_the_loopback_interface_only(user: User) -> None:
    words = ("--config", "tiny", *QUICK, "--set", "processes=2", "--set", "train.max_steps=200")
    running = user.start_pipeline("run", "--host", "local", *words)
    workdir, found = user.home / "halfstep", set[tuple[str, int]]()

    def has_checkpoint() -> bool:
        found.update(ports_of(workdir))
        return any(workdir.glob("projects/*/runs/*/checkpoints/checkpoint-2/halfstep-manifest.json"))

    until(has_checkpoint, "a checkpoint", seconds=PATIENCE_S)
    assert user.run_pipeline("stop").code == 0
    running.communicate(timeout=PATIENCE_S)
    assert len(found) >= 2
    assert {address for address, _ in found} == {"127.0.0.1"}, os.linesep.join(map(str, found))
