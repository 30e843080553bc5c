"""The local record of stages under a full disk, a quota and kill -9 is the old or the new one, never a part."""

from __future__ import annotations

import collections
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.records.files import locked
from pipeline.records.layout import Records
from pipeline.records.stage_checkpoints import (
    StageCheckpoints,
    checkpoint_now,
    read_checkpoints,
    write_checkpoints,
)
from remote.errors import Busy, DiskFull
from remote.protocol.exits import ExitCode
from tests.faults.kill_points import kill_at, kill_points, run_traced
from tests.lab.mounts import why_no_mounts

WRITER = """
import sys
from pathlib import Path
from pipeline.records.stage_checkpoints import checkpoint_now, read_checkpoints, write_checkpoints
path = Path(sys.argv[1])
write_checkpoints(path, read_checkpoints(path).with_checkpoint(checkpoint_now("fix", "new", {}, seconds=2.0)))
"""


def old_claims() -> StageCheckpoints:
    return StageCheckpoints().with_checkpoint(checkpoint_now("sync", "old", {"files": "a" * 64}, seconds=1.5))


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """A record of one stage in its own folder."""
    path = tmp_path / "state" / "titan" / "plain.json"
    write_checkpoints(path, old_claims())
    return path


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with a record of one stage and a page of room."""
    folder = tmp_path / "full"
    folder.mkdir()
    if reason := why_no_mounts():
        pytest.skip(reason)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.root
def test_FI_24_a_full_local_disk_is_exit_22_and_keeps_the_old_record(full_disk: Path) -> None:
    path = full_disk / "state.json"
    write_checkpoints(path, old_claims())
    before = path.read_bytes()
    filler = full_disk / "filler"
    with pytest.raises(OSError, match="No space left"):
        filler.write_bytes(bytes(2**20))

    with pytest.raises(DiskFull, match="no space left") as caught:
        write_checkpoints(
            path, old_claims().with_checkpoint(checkpoint_now("fix", "new", {"files": "b" * 20_000}, seconds=1.0))
        )

    assert caught.value.exit_code is ExitCode.DISK
    assert caught.value.where == str(path)
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in full_disk.iterdir()) == ["filler", "state.json"]
    filler.unlink()
    write_checkpoints(path, StageCheckpoints())
    assert read_checkpoints(path) == StageCheckpoints()


@pytest.mark.root
def test_FI_24_without_room_for_the_lock_or_the_folder_s_marker_exit_22_names_the_file(full_disk: Path) -> None:
    records = Records(full_disk / "project")
    lock = records.lock("titan", "plain")
    lock.parent.mkdir(parents=True)
    with pytest.raises(OSError, match="No space left"):
        (full_disk / "filler").write_bytes(bytes(2**20))

    with pytest.raises(DiskFull, match="no space left") as caught, locked(lock, "run"):
        pytest.fail("nobody would know who holds it")
    assert caught.value.where == str(lock)
    with pytest.raises(DiskFull, match="no space left"):
        records.prepare()
    assert not (records.folder / ".gitignore").exists(), "an empty one would hide nothing and never be mended"
    (full_disk / "filler").unlink()
    records.prepare()
    assert (records.folder / ".gitignore").read_text() == "*\n"
    with locked(lock, "run"), pytest.raises(Busy, match=f"pid {os.getpid()}, run"), locked(lock, "look"):
        pass


@pytest.mark.parametrize(
    ("fault", "words"),
    [("EDQUOT", "over the disk quota"), ("ENOSPC", "no space left"), ("EROFS", "the file system is read-only")],
)
def test_FI_24_the_error_of_the_disk_is_reported_in_words(record: Path, tmp_path: Path, fault: str, words: str) -> None:
    before = record.read_bytes()
    log = tmp_path / "calls"
    completed = run_traced(WRITER, (str(record),), log, f"--inject=fsync:error={fault}")
    assert completed.returncode == 1
    assert f"DiskFull: cannot write {record}: {words}" in completed.stderr
    assert record.read_bytes() == before
    assert [entry.name for entry in record.parent.iterdir()] == [record.name]


def test_FI_25_killed_at_any_change_the_record_is_the_old_or_the_new(record: Path, tmp_path: Path) -> None:
    log = tmp_path / "calls"
    before = record.read_bytes()
    old = read_checkpoints(record).stages
    assert run_traced(WRITER, (str(record),), log).returncode == 0
    assert set(read_checkpoints(record).stages) == {"sync", "fix"}
    kills = 0
    seen: collections.Counter[str] = collections.Counter()
    for kill_point in list(kill_points(log, record.parent)):
        record.write_bytes(before)
        if run_traced(WRITER, (str(record),), log, kill_at(kill_point)).returncode == 0:
            continue
        kills += 1
        claims = read_checkpoints(record)
        assert claims.problem == "", kill_point
        if "fix" in claims.stages:
            assert claims.stages["sync"] == old["sync"]
            assert claims.stages["fix"].fingerprint == "new"
            seen["new"] += 1
        else:
            assert claims.stages == old, kill_point
            assert record.read_bytes() == before, kill_point
            seen["old"] += 1
    assert kills >= 4, "the kill must really have struck"
    assert seen["old"] >= 3
    record.write_bytes(before)
    assert run_traced(WRITER, (str(record),), log).returncode == 0
    assert set(read_checkpoints(record).stages) == {"sync", "fix"}, "what a kill left behind is in nobody's way"
