"""The invariants that hold after every kill; each failure begins with its number, such as I4."""

from __future__ import annotations

import fcntl
import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.records.signed import SIGNATURE
from remote.payload.checkpoints.files import MANIFEST
from remote.protocol.exits import ExitCode
from remote.protocol.records import complete_prefix
from tests.soak.kills import host_processes, wait_for
from tests.soak.world import World, digests

GONE_WITHIN_S = 60.0
LOOK_S = 0.05
SAME_NAME = (
    (re.compile(r"/jobs/\d+"), "/jobs/N"),
    (re.compile(r"output-\d+"), "output-N"),
    (re.compile(r"events\.out\.tfevents\.[^/]+$"), "EVENTS"),
)


@dataclass(frozen=True)
class End:
    """The result of an undisturbed run: the files on the host by digest, and all file names on both machines."""

    tree: dict[str, str]
    results: dict[str, str]
    names: frozenset[str]


def read_end(world: World) -> End:
    """Read the current state."""
    runs = world.remote / "runs"
    results = {str(path.relative_to(runs)): path.read_text() for path in sorted(runs.glob("*/loss.json"))}
    return End(digests(world.remote / "tree"), results, frozenset(names_of(world)))


def names_of(world: World) -> set[str]:
    """Return the names of halfstep's files on both machines.

    Numbers of jobs and processes are replaced with constants.
    """
    found = set()
    for label, root in (("local", world.place), ("remote", world.server.home)):
        for path in root.rglob("*"):
            # Not compared: bytecode caches; kept originals that no file needs, which the next rewrite deletes;
            # interrupted saves, which are kept under a name that no trainer loads.
            if (path.is_dir() and not path.is_symlink()) or path.parent.name == "__pycache__":
                continue
            name = f"{label}/{path.relative_to(root)}"
            if re.search(r"/undo/tree/[0-9a-f]{64}$|/broken-checkpoint-[^/]+/[^/]+$", name):
                continue
            for pattern, same in SAME_NAME:
                name = pattern.sub(same, name)
            found.add(name)
    return found


def check_exit(code: int, err: str) -> None:
    """Check that the exit code is published and no defect, and that no traceback was printed."""
    assert "Traceback" not in err, f"I9: a traceback: {err[-2000:]}"
    known = {int(one) for one in ExitCode} - {int(ExitCode.BUG)}
    assert code in known, f"I9: exit {code}: {err[-2000:]}"


def check_local(world: World, before: dict[str, str]) -> None:
    """Check that the local project is unchanged, and that the records of its stages are readable."""
    assert digests(world.project, without=".halfstep") == before, "I1: the local tree changed"
    records = world.project / ".halfstep"
    for path in records.rglob("*.json"):
        # The name of an unfinished file or of its folder begins with a dot.
        if not any(part.startswith(".") for part in path.relative_to(records).parts):
            check_record(path)


def check_record(path: Path) -> None:
    """Check that the record is complete, or does not exist."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return
    if path.parent.name == "planned":
        # The first line is the signature of the rest.
        data = data.partition(b"\n")[2]
    try:
        record = json.loads(data)
    except ValueError:
        raise AssertionError(f"I3: {path} is not whole: {data[:200]!r}") from None
    if path.parent.parent.name == "state" and path.suffixes == [".json"]:
        assert {"version", "claims", SIGNATURE} <= set(record), f"I3: {path}: {sorted(record)}"


def check_tree(world: World, allowed: dict[str, set[str]]) -> None:
    """Check that each file on the host is a complete copy of an allowed version."""
    if not (world.server.home / "halfstep" / "projects").is_dir():
        return
    for path, digest in digests(world.remote / "tree").items():
        assert path in allowed, f"I2: {path} is in the tree and in no version of the project"
        assert digest in allowed[path], f"I2: {path} is of no version of the project"


def check_mirror(world: World, *, whole: bool) -> None:
    """Check that each local event file is a prefix of the host's, in complete records.

    If `whole`, both are identical.
    """
    for remote_file in world.server.home.glob("halfstep/projects/*/runs/*/tensorboard/*tfevents*"):
        run = remote_file.parent.parent
        local = world.project / ".halfstep" / "runs" / run.name / "tensorboard" / remote_file.name
        data, source = local.read_bytes() if local.exists() else b"", remote_file.read_bytes()
        assert source.startswith(data), f"I7: {local} is not a prefix of the host's"
        if whole:
            assert data == source, f"I7: {local} has {len(data)} of {len(source)} bytes"
            assert complete_prefix(data).size_bytes == len(data), f"I7: {local} ends inside a record"
            for name in ("adapter_model.safetensors", "adapter_config.json"):
                ours, theirs = local.parent.parent / "adapter" / name, run / "adapter" / name
                assert ours.read_bytes() == theirs.read_bytes(), f"I7: {ours} differs from the host's"


def check_job(world: World, *, killed_jobs: int) -> None:
    """Check the jobs: one training at a time, each resumed from the newest verified checkpoint.

    There is at most one training more than were killed.
    """
    for run in world.remote.glob("runs/*"):
        rows: list[dict[str, Any]] = [json.loads(line) for line in (run / "trainer.jsonl").read_text().splitlines()]
        assert not [row for row in rows if row["event"] == "overlap"], "I4: two trainings at once"
        begun = [row for row in rows if row["event"] == "begin"]
        assert len(begun) <= 1 + killed_jobs, f"I4: {len(begun)} trainings, {killed_jobs} of them killed"
        assert len(list((run / "jobs").iterdir())) <= 1 + killed_jobs, "I4: more jobs than killed trainings"
        kept = 0
        for row in begun:
            newest = max(row["verified"], default=0)
            assert newest >= kept, f"I5: checkpoint {kept} was verified once and is gone: {row}"
            assert row["resume"] == newest, f"I6: began at {row['resume']}, the newest verified is {newest}"
            kept = newest


def check_nothing_verified(world: World) -> None:
    """Check that trainer checkpoints exist and none is verified, so that the refusal to resume is correct."""
    folders = [*world.remote.glob("runs/*/checkpoints/checkpoint-*")]
    verified = [folder.name for folder in folders if (folder / MANIFEST).exists()]
    assert folders and not verified, f"I6: refused to resume from {verified}"


def check_quiet(world: World) -> None:
    """Check that no process of halfstep runs on the host, and that every lock is free."""
    gone = wait_for(lambda: not host_processes(world) and not world.server.sessions(), GONE_WITHIN_S, 0.02)
    assert gone, f"I4: still running: {host_processes(world)}, sessions {world.server.sessions()}"
    for root in (world.server.home, world.project / ".halfstep"):
        for path in [*root.rglob("lock"), *root.rglob("*.lock")]:
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise AssertionError(f"I4: {path} is held by no process") from None


def check_end(world: World, honest: End) -> None:
    """Check that the result equals that of an undisturbed run, and that no other file is left."""
    now = read_end(world)
    differ = sorted(path for path in now.tree | honest.tree if now.tree.get(path) != honest.tree.get(path))
    assert not differ, f"I10: other files there: {differ[:5]}"
    assert now.results == honest.results, f"I10: {now.results} instead of {honest.results}"
    strays = sorted(now.names - honest.names)
    assert not strays, f"I2: left about: {strays[:8]}"
    missing = sorted(honest.names - now.names)
    assert not missing, f"I10: missing: {missing[:8]}"


@dataclass
class Sampler:
    """Reads all records of both machines repeatedly during a round, and collects unreadable ones."""

    world: World
    looks: int = 0
    problems: list[str] = field(default_factory=list)

    def __enter__(self) -> Sampler:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(LOOK_S):
            self.looks += 1
            for path in self._records():
                try:
                    check_record(path)
                except AssertionError as problem:
                    self.problems.append(str(problem))

    def _records(self) -> list[Path]:
        projects = self.world.server.home / "halfstep" / "projects"
        local = self.world.project / ".halfstep"
        found: list[Path] = []
        for root, patterns in (
            (projects, ("*/*.json", "*/runs/*/*.json", "*/runs/*/jobs/*/*.json")),
            (local, ("state/*/*.json", "runs/*/*.json", "*.json", "agreed/*.json")),
        ):
            for pattern in patterns:
                found += [*root.glob(pattern)]
        return found

    def check(self) -> None:
        assert not self.problems, self.problems[0]
