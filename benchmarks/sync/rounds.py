"""Copy the cases alternately with halfstep and rsync, in random order."""

from __future__ import annotations

import filecmp
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.sync.copying import SLOW_PLACES, fabric_put, ours, paramiko_put, program, rsync, scp
from benchmarks.sync.destinations import Destination, forget, fresh
from benchmarks.sync.project import FILES, SAMPLES
from remote.project.identity import project_of

ORDER = random.Random(50)


def measure_tree(destination: Destination, root: Path, twin: Path, rounds: int) -> None:
    ours(destination, root)  # The next measurements find the payload on the host.
    for number in range(rounds):
        now = fresh(destination, number)
        mine = now.remote / "halfstep/projects" / project_of(root) / "tree"
        twins = now.remote / "halfstep/projects" / project_of(twin) / "tree"
        forget(root / ".halfstep", twin / ".halfstep")
        in_turn(now, "first copy", root, "-az", "-a", twin=twin)
        check_equal(root, mine)
        check_equal(twin, twins)
        check_equal(root, now.remote / "rsync-az")
        in_turn(now, "nothing changed", root, "-az", twin=twin)
        for changed in (root, twin):
            (changed / "pkg3/sub3/module_3.py").write_text(f"x = {number}\n" * 400)
        in_turn(now, "one file changed", root, "-az", twin=twin)
        check_equal(root, mine)
        check_equal(twin, twins)


def measure_blob(destination: Destination, root: Path, rounds: int) -> None:
    for number in range(rounds):
        now = fresh(destination, 1000 + number)
        forget(root / ".halfstep")
        in_turn(now, "200 MB file", root, "-a")
        check_equal(root, now.remote / "halfstep/projects" / project_of(root) / "tree")
        forget(now.remote)
    forget(root / ".halfstep")
    for name, act in (("scp", scp), ("paramiko put", paramiko_put), ("fabric put", fabric_put)):
        destination.timed("200 MB file", name, partial(act, destination, root))
    forget(*(destination.remote / name for name in SLOW_PLACES))


def in_turn(destination: Destination, case: str, root: Path, *flags: str, twin: Path | None = None) -> None:
    """Measure, in random order, the whole program (on `twin`), `sync alone`, and rsync with each of `flags`."""
    acts: list[tuple[str, Callable[[], None]]] = [("sync alone", partial(ours, destination, root))]
    if twin is not None:
        acts.append(("pipeline run", partial(program, destination, twin)))
    acts += [(f"rsync {each}", partial(rsync, destination, root, each)) for each in flags]
    for name, act in ORDER.sample(acts, len(acts)):
        destination.timed(case, name, act)


def measure_slow_peers(destination: Destination, root: Path, samples: tuple[Path, Path], *, full: bool) -> None:
    """Copy all files, or extrapolate from two samples.

    Each time includes the connection, so the difference of the times is the time for the additional files.
    """
    forget(root / ".halfstep")
    for name, act in (("scp -r", scp), ("paramiko put", paramiko_put), ("fabric put", fabric_put)):
        seconds = []
        for part in (root,) if full else samples:
            forget(*(destination.remote / name for name in SLOW_PLACES))
            began = time.perf_counter()
            act(destination, part)
            seconds.append(time.perf_counter() - began)
        if not full:
            per_file = (seconds[1] - seconds[0]) / (SAMPLES[1] - SAMPLES[0])
            seconds = [seconds[1] + per_file * (FILES - SAMPLES[1])]
            destination.sampled.add(("first copy", name))
        destination.seconds["first copy", name] = seconds


def check_equal(one: Path, other: Path) -> None:
    """Check that every file was copied, byte for byte."""
    for path in one.rglob("*"):
        if path.is_file() and ".halfstep" not in path.parts:
            assert filecmp.cmp(path, other / path.relative_to(one), shallow=False), path
