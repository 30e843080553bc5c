"""The agent is killed at each system call that changes the disk; the next sync ends as if it had not been.

Counted per system call, because strace counts so. With HALFSTEP_FULL=1, every point of every call is tried (about ten
minutes), otherwise a sample of them.
"""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from remote.errors import HalfstepError
from remote.protocol.tree import TreeSurvey
from remote.sync.rewrite import plan_rewrites, rewrite_tree
from remote.sync.sync import sync_project
from tests.lab.processes import processes_of
from tests.lab.wait import until
from tests.remote.sync.sync_bench import STRACE, Bench, TracedStarter, contents
from tests.remote.sync.test_rewrite import change

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(STRACE is None, reason="no strace on this machine"),
]
FULL = bool(os.environ.get("HALFSTEP_FULL"))
CALLS = ("write", "rename", "mkdir", "unlink", "rmdir", "symlink", "chmod", "fchmod", "fsync", "ftruncate", "openat")
TRIED = CALLS if FULL else ("rename", "fsync", "unlink")
POINTS = 400 if FULL else 5


def begin(bench: Bench) -> None:
    """Create an older tree on the host, and a project with a change of each kind since then."""
    os.symlink("src", bench.root / "lib")
    bench.sync()
    bench.close()
    bench.write({"src/model.py": "newer\n" * 300, "new/deep/file.py": "new\n", "copy.py": "newer\n" * 300})
    (bench.root / "configs/run.yaml").unlink()
    (bench.root / "train.py").chmod(0o644)
    os.unlink(bench.root / "lib")
    os.symlink("new", bench.root / "lib")


def attempt_sync(bench: Bench, starter: TracedStarter) -> bool:
    """Return True if the sync completed."""
    host, scan, tree = bench.other_host(starter), bench.scan(), survey_apart(bench)
    shutil.rmtree(bench.root / ".halfstep", ignore_errors=True)
    try:
        sync_project(host, scan, tree, wait=lambda _: host.close() or starter.stop())
    except (HalfstepError, Stopped):
        return False
    finally:
        host.close()
    return True


def survey_apart(bench: Bench) -> TreeSurvey:
    """Return the survey, through a separate agent that is not killed."""
    host = bench.other_host()
    try:
        return bench.survey(host)
    finally:
        host.close()


def attempt_fix(bench: Bench, starter: TracedStarter) -> bool:
    scan, tree = bench.scan(), survey_apart(bench)
    host = bench.other_host(starter)
    try:
        rewrite_tree(host, scan, plan_rewrites(scan, tree, [change(bench), change(bench, "train.py", b"fixed\n")]))
    except HalfstepError:
        return False
    finally:
        host.close()
    return True


class Stopped(Exception):
    """The agent was killed, so this attempt is not continued."""


class OnceTraced(TracedStarter):
    def stop(self) -> None:
        raise Stopped


def count_calls(bench: Bench, attempt, log: Path) -> Counter[str]:
    """Return how often each call happens in an uninterrupted attempt."""
    starter = OnceTraced(log, ["-e", f"trace={','.join(CALLS)}"])
    assert attempt(bench, starter)
    return Counter(re.findall(r"^\d+ +(\w+)\(", starter.text, re.MULTILINE))


@pytest.mark.parametrize("call", TRIED)
@pytest.mark.parametrize("act", ["sync", "fix"])
def test_FI_06_a_sync_killed_at_any_change_of_the_disk_is_completed_by_the_next(tmp_path, bench, act, call):
    attempt = attempt_sync if act == "sync" else attempt_fix
    if act == "sync":
        begin(bench)
    else:
        bench.sync()
        bench.close()
    settle(bench)
    shutil.copytree(bench.workdir, tmp_path / "spare", symlinks=True)
    total = count_calls(bench, attempt, tmp_path / "count")[call]
    if not total:
        assert call not in {"write", "rename", "fsync", "openat"}
        return
    wanted, older = contents(bench.tree), contents(only(tmp_path / "spare/projects") / "tree")
    spread = (
        range(1, total + 1)
        if total <= POINTS
        else sorted({round(1 + i * (total - 1) / (POINTS - 1)) for i in range(POINTS)})
    )
    hits = 0
    for point in spread:
        settle(bench)
        restore(tmp_path / "spare", bench.workdir)
        starter = OnceTraced(
            tmp_path / f"{call}-{point}", ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={point}"]
        )
        finished = attempt(bench, starter)
        hits += not finished
        for path, what in contents(bench.tree).items():
            assert what in {older.get(path), wanted.get(path)} or same_bytes(what, older.get(path), wanted.get(path)), (
                point,
                path,
            )
        assert not [d for d in bench.survey().deviations if d.kind in {"edited", "not-regular"}], point
        report = bench.sync()
        assert report.report.ok, (point, report.report)
        if act == "fix":
            assert attempt_fix(bench, OnceTraced(tmp_path / "after", ["-e", "trace=none"]))
        assert contents(bench.tree) == wanted, point
        survey = bench.survey()
        assert not survey.pending and not survey.deviations and not survey.staged, point
    assert hits > 0 or call in {"write", "openat"}


def same_bytes(what: str, *others: str | None) -> bool:
    """Return True if all contents are right; modes may still be wrong."""
    return any(other is not None and what.split(maxsplit=1)[0] == other.split()[0] for other in others)


def settle(bench: Bench) -> None:
    """Wait until all agents and their housekeeping have ended, so that nothing writes to the workdir."""
    bench.close()
    until(lambda: not processes_of(bench.workdir), "the end of every process of the host")


def restore(spare: Path, workdir: Path) -> None:
    """Restore the host's state from before the attempt."""
    shutil.rmtree(workdir)
    shutil.copytree(spare, workdir, symlinks=True)


def only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found
