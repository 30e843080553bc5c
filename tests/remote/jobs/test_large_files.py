"""Large project files are not copied into every run, and a job that writes to one changes no other copy."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.operations.jobs import start_job, stop_job
from remote.payload.tree.materialise import materialise
from remote.project.scan import scan_project
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobState
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import LARGE_BYTES, TreeSurvey
from remote.protocol.values import decode
from remote.sync.sync import sync_project
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench

LARGE = "weights/best.pt"
BEFORE = bytes(range(256)) * (LARGE_BYTES // 256 + 1)
QUIET = "print('trained')"
WRITES = {
    "appends": f"open({LARGE!r}, 'ab').write(b'more')",
    "replaces in place": f"open({LARGE!r}, 'wb').write(b'ours')",
    "patches": f"f = open({LARGE!r}, 'r+b'); f.seek(5); f.write(b'patched')",
    "maps": f"import mmap; f = open({LARGE!r}, 'r+b'); m = mmap.mmap(f.fileno(), 0); m[:4] = b'mmap'; m.flush()",
    "truncates": f"import os; os.truncate({LARGE!r}, 3)",
}


@pytest.fixture
def synced(bench: Bench, tmp_path: Path) -> Bench:
    """The host has a project with a large file."""
    root = tmp_path / "project"
    (root / "weights").mkdir(parents=True)
    (root / LARGE).write_bytes(BEFORE)
    (root / "train.py").write_text("print('training')\n")
    send(bench, root)
    return bench


def send(bench: Bench, root: Path) -> None:
    survey = decode(TreeSurvey, bench.host.ask("tree.survey", {"project": PROJECT}))
    assert sync_project(bench.host, scan_project(root, project=PROJECT, owner="me"), survey).report.ok


def large_of(bench: Bench) -> Path:
    return Path(bench.layout.code) / LARGE


def tree(bench: Bench) -> Path:
    return bench.workdir / ProjectLayout(PROJECT).tree


def train(bench: Bench, run: str, code: str, *, number: int = 1, to_its_end: bool = True) -> Bench:
    """Start a run of that name whose job is that Python code; with `to_its_end`, wait until it has succeeded."""
    one = replace(bench, run=run)
    spec = replace(one.spec(number=number), argv=(one.python, "-c", code), grace_s=0.1)
    start_job(one.host, StartRequest(PROJECT, spec, "tiny"))
    state = JobState.SUCCEEDED if to_its_end else JobState.RUNNING
    until(lambda: one.survey().state is state, f"{run} is {state.value}")
    return one


def inode(bench: Bench) -> int:
    return large_of(bench).stat().st_ino


def test_runs_that_have_ended_share_one_copy_of_a_large_file(synced: Bench) -> None:
    runs = [train(synced, f"run-{name}", QUIET) for name in "abc"]
    assert len({inode(run) for run in runs}) == 1, "one copy for three runs"
    assert inode(runs[0]) != (tree(synced) / LARGE).stat().st_ino, "and it is not the tree's own"
    assert all(large_of(run).read_bytes() == BEFORE for run in runs)
    assert (Path(runs[0].layout.code) / "train.py").stat().st_nlink == 1


@pytest.mark.parametrize("code", WRITES.values(), ids=WRITES)
def test_a_job_that_writes_into_a_large_file_changes_neither_the_tree_nor_the_next_run(
    synced: Bench, code: str
) -> None:
    look = (tree(synced) / LARGE).stat()
    first = train(synced, "run-a", code)
    assert large_of(first).read_bytes() != BEFORE, "the job itself may write"
    after = (tree(synced) / LARGE).stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_nlink) == (look.st_ino, look.st_mtime_ns, 1)
    assert (tree(synced) / LARGE).read_bytes() == BEFORE
    assert not decode(TreeSurvey, synced.host.ask("tree.survey", {"project": PROJECT})).deviations
    assert large_of(train(synced, "run-b", QUIET)).read_bytes() == BEFORE
    third = train(synced, "run-c", code)
    assert large_of(train(synced, "run-d", QUIET)).read_bytes() == BEFORE
    assert large_of(third).stat().st_nlink == 1, "a file that jobs write into is copied from then on"


def test_two_active_runs_never_share_a_copy(synced: Bench) -> None:
    waits = "import time; time.sleep(1000)"
    first = train(synced, "run-a", waits, to_its_end=False)
    second = train(synced, "run-b", WRITES["appends"])
    assert large_of(first).read_bytes() == BEFORE and inode(first) != inode(second)
    stop_job(first.host, PROJECT, first.run, grace_s=0.1)


def test_a_resumed_run_shares_its_large_file_with_no_other(synced: Bench) -> None:
    first, second = (train(synced, f"run-{name}", QUIET) for name in "ab")
    assert inode(first) == inode(second)
    train(first, first.run, WRITES["patches"], number=2)
    assert large_of(first).read_bytes() != BEFORE and large_of(second).read_bytes() == BEFORE


def test_a_file_that_was_sent_again_replaces_the_old_copy(synced: Bench, tmp_path: Path) -> None:
    first = train(synced, "run-a", QUIET)
    (tmp_path / "project" / LARGE).write_bytes(BEFORE[::-1])
    send(synced, tmp_path / "project")
    second = train(synced, "run-b", QUIET)
    assert (large_of(first).read_bytes(), large_of(second).read_bytes()) == (BEFORE, BEFORE[::-1])
    assert large_of(first).stat().st_nlink == 1, "only its run has the old one"
    kept = [path for path in (synced.workdir / ProjectLayout(PROJECT).large).iterdir() if not path.suffix]
    assert [path.read_bytes() for path in kept] == [BEFORE[::-1]]


def test_a_proof_leaves_no_kept_copy(synced: Bench, tmp_path: Path) -> None:
    materialise(str(synced.workdir), PROJECT, str(tmp_path / "copy"))
    assert (tmp_path / "copy" / LARGE).stat().st_nlink == 1
    assert not (synced.workdir / ProjectLayout(PROJECT).large).exists()
