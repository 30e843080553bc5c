"""SE: a folder that another user replaces by a link while a file is written redirects no write and no deletion."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fixers.frame.change import FileChange, Plan
from fixers.plans.file_plan import FileOutcome
from fixers.plans.on_disk import apply_to_disk, undo_on_disk
from fixers.plans.plan_cache import CACHES_KEPT, PlanCache
from pipeline.cli.main import run
from pipeline.records.files import locked, write_atomic
from remote.errors import BadUsage, FixRefused
from remote.project.digests import write_state
from remote.pull.folder import Folder

PLACE = "sub/pkg/a.py"
FIX = Plan((), (FileChange(PLACE, b"1", b"2", {"x": 1}),))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / PLACE).parent.mkdir(parents=True)
    (root / PLACE).write_bytes(b"1")
    return root


@pytest.fixture(params=[(), ("a.py", "first.yaml")], ids=["empty", "same names"])
def victim(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A folder of the user that the other user may not write to."""
    folder = tmp_path / "victim"
    (folder / "pkg").mkdir(parents=True)
    for name in request.param:
        (folder / name).write_bytes(b"mine")
        (folder / "pkg" / name).write_bytes(b"mine")
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def swap_when_listed(monkeypatch: pytest.MonkeyPatch, listed: Path, swapped: Path, target: Path) -> Path:
    """Replace `swapped` by a link as soon as `listed` has been listed. Return the place to which it is moved."""
    moved, listing, watched = swapped.with_name("moved"), os.listdir, os.stat(listed)

    def swapping(place: str | int = ".") -> list[str]:
        names = listing(place)
        if not moved.exists() and os.path.samestat(os.stat(place), watched):
            swapped.rename(moved)
            swapped.symlink_to(target)
        return names

    monkeypatch.setattr(os, "listdir", swapping)
    return moved


@pytest.mark.parametrize("swapped", ["sub", "sub/pkg"])
def test_SE_a_fix_is_written_to_the_folder_whose_file_was_planned(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    before = contents(victim)
    moved = swap_when_listed(monkeypatch, project / "sub/pkg", project / swapped, victim)
    apply_to_disk(project, FIX)
    assert contents(victim) == before
    assert set(contents(moved).values()) == {b"2"}


@pytest.mark.parametrize("swapped", ["sub", "sub/pkg"])
def test_SE_an_undo_is_written_to_the_folder_whose_file_was_compared(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    before = contents(victim)
    apply_to_disk(project, FIX)
    moved = swap_when_listed(monkeypatch, project / "sub/pkg", project / swapped, victim)
    assert undo_on_disk(project).restored == (PLACE,)
    assert contents(victim) == before
    assert set(contents(moved).values()) == {b"1"}


def test_SE_a_link_in_place_of_a_folder_is_refused_before_a_fix_is_written(project: Path, victim: Path) -> None:
    (project / "sub/pkg").rename(victim / "moved")
    (project / "sub/pkg").symlink_to(victim / "moved")
    with pytest.raises(FixRefused, match="not a file of this folder"):
        apply_to_disk(project, FIX)
    assert (victim / "moved/a.py").read_bytes() == b"1"


def test_SE_a_folder_that_is_deleted_while_a_file_is_written_is_an_error(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listing, watched = os.listdir, os.stat(project / "sub/pkg")

    def deleting(place: str | int = ".") -> list[str]:
        names = listing(place)
        if os.path.samestat(os.stat(place), watched):
            (project / PLACE).unlink()
            (project / PLACE).parent.rmdir()
        return names

    monkeypatch.setattr(os, "listdir", deleting)
    with pytest.raises(FixRefused, match="the folder was deleted"):
        apply_to_disk(project, FIX)


@pytest.mark.parametrize("swapped", ["undo", "undo/originals"])
def test_SE_originals_are_deleted_only_in_the_records(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, swapped: str
) -> None:
    (victim / "originals").mkdir()
    apply_to_disk(project, FIX)
    (original,) = (project / ".halfstep/undo/originals").iterdir()
    for folder in (victim, victim / "originals"):
        (folder / original.name).write_bytes(b"mine")
    before = contents(victim)
    records = project / ".halfstep"
    swap_when_listed(monkeypatch, records / "undo/originals", records / swapped, victim)
    undo_on_disk(project)
    assert contents(victim) == before


def test_SE_init_writes_a_config_only_to_the_project(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(victim)
    monkeypatch.chdir(project)
    (project / "configs").mkdir()
    (project / "train.py").write_text("print(1)\n")
    moved = swap_when_listed(monkeypatch, project / "configs", project / "configs", victim)
    run(["init", "--host", "local", "--config", "first", "--script", "train.py"])
    assert contents(victim) == before
    assert list(contents(moved)) == ["first.yaml"]


def test_SE_init_refuses_a_linked_folder_that_the_check_has_missed(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(victim)
    (project / "configs").symlink_to(victim)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        write_atomic(project / "configs" / "first.yaml", b"new", 0o644, root=project)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        write_atomic(project / "configs" / "hosts" / "box.yaml", b"new", 0o644, root=project)
    assert contents(victim) == before


def save_plans(records: Path) -> None:
    cache = PlanCache.of(records.parent, "a.py")
    cache.store("a.py", "0" * 64, FileOutcome())
    cache.save()


WRITERS: dict[str, Callable[[Path], object]] = {
    "record": lambda records: write_atomic(records / "planned" / "a.py", b"new"),
    "cache": lambda records: write_state(records / "planned", "a.py", {}),
    "plans": save_plans,
}


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("swapped", [".halfstep", ".halfstep/planned"])
def test_SE_records_are_written_only_to_the_project(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, write: str, swapped: str
) -> None:
    (victim / "planned").mkdir()
    for number in range(CACHES_KEPT + 4):
        (victim / f"results{number}.json").write_text("{}")
        (victim / "planned" / f"results{number}.json").write_text("{}")
    before = contents(victim)
    records = project / ".halfstep"
    (records / "planned").mkdir(parents=True)
    (records / ".gitignore").write_text("*\n")
    swap_when_listed(monkeypatch, records / "planned", project / swapped, victim)
    WRITERS[write](records)
    assert contents(victim) == before


def hold_lock(folder: Path) -> None:
    with locked(folder / "a.py", "testing"):
        pass


@pytest.mark.parametrize("open_it", [hold_lock, Folder], ids=["lock", "download"])
def test_SE_a_linked_folder_that_the_check_has_missed_is_not_opened(
    project: Path, victim: Path, monkeypatch: pytest.MonkeyPatch, open_it: Callable[[Path], object]
) -> None:
    before = contents(victim)
    (project / ".halfstep").mkdir()
    (project / ".halfstep/runs").symlink_to(victim)
    monkeypatch.setattr("remote.project.records_folder.find_link", lambda path: None)
    with pytest.raises(BadUsage, match="is a symbolic link"):
        open_it(project / ".halfstep/runs")
    assert contents(victim) == before
