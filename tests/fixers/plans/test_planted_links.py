"""SE-12: links and journals in the .halfstep/ folder of a cloned project redirect no write, read or deletion."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.plans.file_plan import FileOutcome
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.plan_cache import CACHES_KEPT, PlanCache
from remote.errors import BadUsage, FixRefused

FIX = Plan((), (FileChange("a.py", b"1", b"2", {"x": 1}),))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_bytes(b"1")
    return root


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder of the user with more files than the cache keeps."""
    folder = tmp_path / "documents"
    folder.mkdir()
    for number in range(CACHES_KEPT + 4):
        (folder / f"results{number}.json").write_text("{}")
    return folder


def plant(project: Path, name: str, target: Path) -> None:
    link = project / ".halfstep" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(target)


def state(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def plant_journal(project: Path, path: str, before: str, ours: str, original: bytes = b"") -> None:
    undo = project / ".halfstep/undo"
    (undo / "originals").mkdir(parents=True)
    (undo / "originals" / sha256(original)).write_bytes(original)
    (undo / "journal.json").write_text(json.dumps({"steps": {path: {"before": before, "ours": [ours]}}}))


@pytest.mark.parametrize("name", ["", "planned"])
def test_SE_12_the_cache_of_plans_neither_deletes_nor_writes_behind_a_link(
    project: Path, victim: Path, name: str
) -> None:
    (victim / "planned").mkdir() if not name else None
    plant(project, name, victim)
    cache = PlanCache.of(project, "key")
    cache.store("a.py", sha256(b"1"), FileOutcome())
    cache.save()
    kept = [path.name for path in victim.rglob("*.json")]
    assert len(kept) == CACHES_KEPT + 4 and not (victim / ".gitignore").exists() and "key.json" not in kept


def test_SE_12_a_dangling_link_in_place_of_the_gitignore_creates_no_file(project: Path, tmp_path: Path) -> None:
    plant(project, ".gitignore", tmp_path / "planted")
    cache = PlanCache.of(project, "key")
    cache.store("a.py", sha256(b"1"), FileOutcome())
    cache.save()
    apply_to_disk(project, FIX)
    assert not (tmp_path / "planted").exists() and (project / "a.py").read_bytes() == b"2"


@pytest.mark.parametrize("name", ["undo", "undo/originals", "undo/lock", ""])
def test_SE_12_a_fix_is_refused_if_its_records_are_behind_a_link(project: Path, victim: Path, name: str) -> None:
    before = state(victim)
    plant(project, name, victim / "results1.json" if name == "undo/lock" else victim)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        apply_to_disk(project, FIX)
    assert state(victim) == before and (project / "a.py").read_bytes() == b"1"


def test_SE_12_an_undo_deletes_no_originals_behind_a_link(project: Path, victim: Path) -> None:
    before = state(victim)
    apply_to_disk(project, FIX)
    originals = project / ".halfstep/undo/originals"
    originals.rename(project / "elsewhere")
    originals.symlink_to(victim)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        undo_on_disk(project)
    assert state(victim) == before


@pytest.mark.parametrize(
    "before", ["../../../../documents/results1.json", "", sha256(b"x").upper(), sha256(b"x") + "\n"]
)
def test_SE_12_the_original_of_a_planted_journal_is_named_by_a_digest(project: Path, victim: Path, before: str) -> None:
    plant_journal(project, "a.py", before, sha256(b"1"))
    with pytest.raises(FixRefused, match="whose name is not a digest"):
        undo_on_disk(project)
    assert (project / "a.py").read_bytes() == b"1"


@pytest.mark.parametrize("how", ["link", "modified", "missing"])
def test_SE_12_an_original_that_is_not_the_file_with_that_digest_is_not_restored(
    project: Path, victim: Path, how: str
) -> None:
    secret = (victim / "results1.json").read_bytes()
    plant_journal(project, "a.py", sha256(secret), sha256(b"1"), secret)
    original = project / ".halfstep/undo/originals" / sha256(secret)
    original.unlink()
    if how == "link":
        original.symlink_to(victim / "results1.json")
    elif how == "modified":
        original.write_bytes(b"other")
    with pytest.raises((FixRefused, BadUsage)):
        undo_on_disk(project)
    assert (project / "a.py").read_bytes() == b"1"


@pytest.mark.parametrize("path", [".git/config", "sub/.GIT/config", ".halfstep/runs/x/run.json"])
def test_SE_12_a_planted_journal_restores_no_file_of_git_or_halfstep(project: Path, path: str) -> None:
    file = project / path
    file.parent.mkdir(parents=True)
    file.write_bytes(b"[core]\n")
    evil = b"[core]\nfsmonitor = ./evil\n"
    plant_journal(project, path, sha256(evil), sha256(b"[core]\n"), evil)
    with pytest.raises(FixRefused, match="not a file of this folder"):
        undo_on_disk(project)
    assert file.read_bytes() == b"[core]\n"


@pytest.mark.parametrize("path", ["", ".", "./", "sub", "a.py/b", "a\0b", "\ud800", "x" * 5000])
def test_SE_12_a_planted_journal_with_the_path_of_no_file_is_refused(project: Path, path: str) -> None:
    (project / "sub").mkdir(exist_ok=True)
    plant_journal(project, path, sha256(b"new"), sha256(b"1"), b"new")
    with pytest.raises(FixRefused):
        undo_on_disk(project)
    assert (project / "a.py").read_bytes() == b"1"


def test_SE_12_an_undo_does_not_wait_for_a_planted_fifo(project: Path) -> None:
    os.mkfifo(project / "pipe.py")
    plant_journal(project, "pipe.py", sha256(b"new"), sha256(b"1"), b"new")
    with pytest.raises(FixRefused, match="cannot be read"):
        undo_on_disk(project)


def test_SE_12_a_planted_folder_among_the_originals_is_left(project: Path) -> None:
    plant_journal(project, "a.py", sha256(b"new"), sha256(b"1"), b"new")
    (project / ".halfstep/undo/originals/folder").mkdir()
    assert undo_on_disk(project).restored == ("a.py",)
    assert (project / "a.py").read_bytes() == b"new"


@pytest.mark.parametrize("mode", [0o664, 0o606])
def test_SE_12_a_journal_that_others_may_write_to_is_not_undone(project: Path, mode: int) -> None:
    plant_journal(project, "a.py", sha256(b"evil"), sha256(b"1"), b"evil")
    journal = project / ".halfstep/undo/journal.json"
    journal.chmod(mode)
    with pytest.raises(BadUsage, match="other users may write to") as refusal:
        undo_on_disk(project)
    assert (project / "a.py").read_bytes() == b"1"
    assert refusal.value.hint == f"chmod go-w {journal}"


@pytest.mark.root
@pytest.mark.parametrize("begin", [undo_on_disk, lambda project: apply_to_disk(project, FIX)])
def test_SE_12_a_journal_that_another_user_left_in_an_open_folder_is_not_used(
    project: Path, begin: Callable[[Path], object]
) -> None:
    plant_journal(project, "a.py", sha256(b"evil"), sha256(b"1"), b"evil")
    os.chown(project / ".halfstep/undo/journal.json", 65534, 65534)
    with pytest.raises(BadUsage, match="belongs to another user, who could change it"):
        begin(project)
    assert (project / "a.py").read_bytes() == b"1"
