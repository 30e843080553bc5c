"""A project whose training waits for a file after its last step, and counts how often it ran."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.hosts import load_host
from pipeline.hosts.trust import keep_trust
from tests.e2e.user import User
from tests.lab.payload import install_payload
from tests.lab.plain_torch import WITHOUT_COMPILER
from tests.lab.wait import until

SCRIPT = (
    WITHOUT_COMPILER
    + """
import os
import time

import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(64, 8)
for step in range(4):
    torch.nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True)).backward()
    optimizer.step()
    optimizer.zero_grad()
if "HALFSTEP_JOB" in os.environ and "HALFSTEP_PROOF" not in os.environ:
    with open(os.environ["HELD"] + "/trainings", "a") as file:
        file.write(f"{os.getpid()}\\n")
    print("waiting", flush=True)
    while not os.path.exists(os.environ["HELD"] + "/go"):
        time.sleep(0.02)
    print("trained")
"""
)


@dataclass(frozen=True)
class WaitingProject:
    """Controls the trainings, which wait for the file `go` in `folder`."""

    folder: Path
    workdir: Path

    def go(self) -> None:
        """Let every training end."""
        (self.folder / "go").touch()

    @property
    def trainings(self) -> list[int]:
        """The process of each training so far."""
        path = self.folder / "trainings"
        return [int(line) for line in path.read_text().split()] if path.exists() else []

    def supervisor(self) -> int:
        """Return the supervisor of the newest job."""
        records = self.workdir.glob("projects/*/runs/*/jobs/*/supervisor.json")
        newest = max(records, key=lambda path: path.stat().st_mtime_ns)
        return int(json.loads(newest.read_bytes())["pid"])

    def await_training(self, number: int = 1) -> int:
        """Wait until that training is at its last step, and return its process."""
        until(lambda: len(self.trainings) >= number, "the training")
        return self.trainings[number - 1]


def living(pid: int) -> bool:
    """Return True if the process has not ended."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (ProcessLookupError, FileNotFoundError):
        return False


def confirm_host_file(user: User, name: str) -> None:
    """Confirm that host file of the project, as the user would."""
    keep_trust(load_host(name, user.project.resolve()), user.environment_of_commands)


def write_waiting_project(user: User) -> WaitingProject:
    """Create the project, with its config `plain` and two hosts, `one` and `two`, both on this machine."""
    folder = user.home / "held"
    folder.mkdir()
    hosts = user.project / "configs" / "hosts"
    hosts.mkdir(parents=True)
    for name in ("one", "two"):
        (hosts / f"{name}.yaml").write_text(f"host: local\nworkdir: {user.home / name}\n")
        confirm_host_file(user, name)
        install_payload(user.home / name)
    (user.project / "train.py").write_text(SCRIPT)
    (user.project / "configs" / "plain.yaml").write_text(
        f"# pipeline run --host one --config plain\nproject: .\ncommand: [python, train.py]\nenv: {{HELD: {folder}}}\n"
    )
    return WaitingProject(folder, user.home / "one")
