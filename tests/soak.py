"""`python -m tests.soak --kills 500 --seed 1`: `pipeline run` killed -9 at random moments, then typed again.

After each kill the next run must end well, with one training only, the same tree on the host, and nothing left to do.
Prints a line a kill; exit 1 at the first violation.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.plain_project import write_plain_project
from tests.e2e.user import User, kill
from tests.lab.sshd import Sshd

STAGES = ("sync", "environment", "fix", "verify", "train", "logs")


@dataclass(frozen=True)
class World:
    """A user with the plain project, and one server."""

    user: User
    server: Sshd
    host: Path

    @property
    def words(self) -> tuple[str, ...]:
        return ("run", "--host", str(self.host), "--config", "plain")

    @property
    def trainings(self) -> int:
        """How often the script was started as a job."""
        return len((self.server.home / "trainings.log").read_text().split())

    @property
    def project_there(self) -> Path:
        [folder] = (self.server.home / "halfstep" / "projects").iterdir()
        return folder

    def end_state(self) -> dict[str, str]:
        """What must be the same whatever happened on the way: the tree there, the result, the curves here."""
        told = {f"there {k}": v for k, v in digests(self.project_there / "tree").items()}
        for run in (self.project_there / "runs").iterdir():
            told[f"{run.name}/result"] = (run / "result.json").read_text()
            told[f"{run.name}/jobs"] = str(sorted(job.name for job in (run / "jobs").iterdir()))
        home = self.user.project / ".halfstep" / "runs"
        told["runs here"] = str(sorted(folder.name for folder in home.iterdir()))
        return told


def digests(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def new_world(root: Path, server: Sshd) -> World:
    """A fresh project and an empty home."""
    user = User(root / "project", root / "laptop")
    write_plain_project(user.project)
    return World(user, server, user.knows("titan", server, folder=root / "hosts"))


def timeline(world: World) -> dict[str, float]:
    """How long each stage takes in an undisturbed run, in seconds; the first one from the command on."""
    began = time.monotonic()
    process = world.user.starts(*world.words)
    assert process.stdout is not None
    spans, last = {}, 0.0
    for line in process.stdout:
        name = line.decode().split()[0] if line.split() else ""
        if name in STAGES:
            now = time.monotonic() - began
            spans[name] = now - last
            last = now
    code = process.wait()
    assert code == 0, process.stderr.read().decode() if process.stderr else ""
    assert set(spans) == set(STAGES), spans
    return spans


def kill_and_finish(world: World, stage: str, after_s: float) -> dict[str, str]:
    """The end state after a run killed so long after that stage began, and typed again; there was one training."""
    first = world.user.starts(*world.words)
    assert first.stdout is not None
    before = STAGES[: STAGES.index(stage)]
    if before:
        for line in first.stdout:
            if line.split()[:1] == [before[-1].encode()]:
                break
    with contextlib.suppress(subprocess.TimeoutExpired):
        first.wait(timeout=after_s)
    kill(first)
    again = world.user.types(*world.words, "--json")
    assert again.code == 0, again.out + again.err
    third = world.user.types(*world.words, "--json")
    assert set(third.states.values()) == {"skipped"}, third.out
    assert world.trainings == 1, "it was trained more than once"
    return world.end_state()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args(words)
    dice = random.Random(wanted.seed)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        root = Path(folder)
        server = Sshd(root / "reference").start()
        reference = new_world(root / "reference", server)
        spans = timeline(reference)
        honest = reference.end_state()
        server.close()
        for number in range(1, wanted.kills + 1):
            stage = dice.choice(STAGES)
            moment = dice.uniform(0.0, spans[stage])
            server = Sshd(root / str(number)).start()
            try:
                state = kill_and_finish(new_world(root / str(number), server), stage, moment)
            except AssertionError as violation:
                sys.stdout.write(f"{number}: killed in {stage} at {moment:.2f} s: VIOLATION {violation}\n")
                return 1
            finally:
                server.close()
            same = sorted(strip_names(state)) == sorted(strip_names(honest))
            sys.stdout.write(
                f"{number}: killed in {stage} at {moment:.2f} s: {'same end' if same else 'ANOTHER END'}\n"
            )
            sys.stdout.flush()
            if not same:
                return 1
    sys.stdout.write(f"{wanted.kills} passed, 0 failed\n")
    return 0


def strip_names(state: dict[str, str]) -> list[tuple[str, str]]:
    """The end state without the run's id, which holds where the project lies."""
    return [(key.rpartition("/")[2], value) for key, value in state.items() if key != "runs here"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
