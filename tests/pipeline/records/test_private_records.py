"""The records of a project can be read only by the user, since they contain copies of files that others cannot read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fixers.plans.plan_cache import PlanCache
from pipeline.cli.main import run
from pipeline.records.files import locked, write_atomic
from remote.errors import BadUsage
from remote.project.digests import write_state
from remote.project.records_folder import create_folder, find_link
from remote.pull.folder import Folder

NOBODY = 65534
TRAIN = """\
from transformers import Trainer, TrainingArguments

trainer = Trainer(model, TrainingArguments("out", bf16=True))
trainer.train()
"""


@pytest.fixture(params=[0o022, 0], ids=["umask 022", "umask 0"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def save_plans(folder: Path) -> None:
    cache = PlanCache(folder / "planned" / "files-a.json")
    cache.store_row("a.py", "digest", [])
    cache.save()


def hold_lock(folder: Path) -> None:
    with locked(folder / "state" / "titan" / "one.lock", "testing"):
        pass


def open_run(folder: Path) -> None:
    with Folder(folder / "runs" / "one") as run_folder, run_folder.locked():
        pass


def test_SE_exports_of_a_project_can_be_read_only_by_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: None
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("one")
    assert run(["init", "--host", "local", "--config", "first", "--script", "train.py"]) == 0
    assert run(["fix", ".", "--card", "titan-rtx"]) == 0
    assert run(["export", "sky", "--config", "first", "--set", "data.path=data"]) == 0
    records = tmp_path / ".halfstep"
    found = [records, *records.rglob("*")]
    assert (records / "undo" / "originals").is_dir()
    assert {"project.tar.gz", "data.tar", "task.yaml", ".gitignore", "config.schema.json"} <= {
        one.name for one in found
    }
    assert {oct(mode(one)) for one in found if one.is_dir()} == {oct(0o700)}
    assert {oct(mode(one)) for one in found if one.is_file()} == {oct(0o600)}
    assert mode(tmp_path / "configs" / "first.yaml") == 0o644, "configs are part of the project"


WRITERS: dict[str, Callable[[Path], object]] = {
    "file": lambda folder: write_atomic(folder / "runs" / "one" / "run.json", b"{}"),
    "lock": hold_lock,
    "cache": lambda folder: write_state(folder, "scan.json", {}),
    "cache below": lambda folder: write_state(folder / "agreed", "a.json", {}),
    "plans": save_plans,
    "download": open_run,
}


@pytest.mark.parametrize("write", WRITERS)
def test_SE_records_of_an_older_version_are_closed_to_others_at_the_next_write(tmp_path: Path, write: str) -> None:
    records = tmp_path / ".halfstep"
    for folder in (records, records / "runs"):
        folder.mkdir()
        folder.chmod(0o2755)
    tmp_path.chmod(0o755)
    WRITERS[write](records)
    assert mode(records) == 0o2700, "other bits are kept"
    assert mode(tmp_path) == 0o755


@pytest.mark.parametrize("open_to", [0o775, 0o777, 0o707])
def test_SE_an_open_folder_below_closed_records_is_closed_before_it_is_written_to(tmp_path: Path, open_to: int) -> None:
    """A member of the project's group may have had the folder open before `.halfstep` was closed."""
    folder = tmp_path / ".halfstep" / "export" / "sky-t"
    folder.mkdir(parents=True)
    for one in (folder.parent, folder):
        one.chmod(open_to)
    (tmp_path / ".halfstep").chmod(0o700)
    write_atomic(folder / "task.yaml", b"")
    assert (mode(folder.parent), mode(folder)) == (0o700, 0o700)


@pytest.mark.root
def test_SE_root_keeps_the_mode_of_the_records_of_the_projects_owner(tmp_path: Path) -> None:
    records = tmp_path / ".halfstep"
    records.mkdir()
    records.chmod(0o775)
    for folder in (tmp_path, records):
        os.chown(folder, NOBODY, NOBODY)
    create_folder(records / "runs")
    assert mode(records) == 0o775
    assert mode(records / "runs") == 0o700


def test_a_folder_outside_of_the_records_has_the_mode_of_the_umask(tmp_path: Path, umask: None) -> None:
    (tmp_path / "expected").mkdir()
    create_folder(tmp_path / "configs" / "hosts")
    create_folder(tmp_path / "configs" / "hosts")
    assert mode(tmp_path / "configs") == mode(tmp_path / "configs" / "hosts") == mode(tmp_path / "expected")


@pytest.mark.root
def test_records_that_another_user_has_closed_are_reported(tmp_path: Path) -> None:
    (tmp_path / ".halfstep").mkdir(mode=0o700)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(BadUsage, match="cannot be read, because another user created it") as caught:
            find_link(tmp_path / ".halfstep" / "runs")
    finally:
        os.seteuid(0)
    assert caught.value.hint.startswith("ls -ld ")
