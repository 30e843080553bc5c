"""The data of an exported task: an archive of what a sync would send, unpacked on the machine."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.export import compose
from pipeline.export.bundle import write_data
from remote.errors import SyncRefused
from remote.project.data import DataScan, scan_data
from remote.protocol.exits import ExitCode
from tests.pipeline.export.engine_file import ENGINES, EngineFile, archived, exported

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW\n"


def packed(task: EngineFile) -> dict[str, bytes]:
    with tarfile.open(task.uploads["halfstep-task/data.tar"]) as archive:
        return {member.name: read(archive, member) for member in archive}


def read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = archive.extractfile(member)
    assert file is not None
    return file.read()


def started(task: EngineFile, engine: str, home: Path) -> str:
    """Run the commands that start the task in `home`, and return the command line of `pipeline run`."""
    script = task.scripts[-1].replace("cd ~\n", "").replace('"$task/venv/bin/pipeline"', "printf '%s\\n'")
    if engine == "dstack":
        script = script[script.index("cd ..\n") + len("cd ..\n") :]
    return subprocess.run(["sh", "-c", script], cwd=home, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("named", ["sounds", "../sounds", "sounds/it's.jsonl", "../sounds/it's.jsonl"])
@pytest.mark.parametrize("engine", ENGINES)
def test_data_is_uploaded_as_an_archive_and_found_under_its_name(
    project: Path, tmp_path: Path, engine: str, named: str
) -> None:
    folder = (project / named.partition("sounds")[0] / "sounds").resolve()
    folder.mkdir()
    (folder / "it's.jsonl").write_text("one")
    task = exported(engine, project, "--set", f"data.path={named}")
    assert packed(task) == {"it's.jsonl": b"one"}
    assert not any(name.startswith("sounds") for name in archived(task))
    home = tmp_path / "home"
    task.place_uploads(home)
    for _ in range(2):  # the engine restarts a task on the same machine
        words = started(task, engine, home).splitlines()
        inside = home / "halfstep-task" / "project"
        assert (inside / "train.py").is_file()
        place = next(Path(word.removeprefix("data.path=")) for word in reversed(words) if word.startswith("data.path="))
        place = inside / place
        assert (place if named.endswith("jsonl") else place / "it's.jsonl").read_text() == "one"
        (inside / ".halfstep").mkdir(exist_ok=True)
        (inside / ".halfstep" / "record").write_text("kept")
        (inside / "stale.py").write_text("")
    assert (inside / ".halfstep" / "record").read_text() == "kept"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_machine_that_has_other_data_gets_the_data_of_the_newest_task(
    project: Path, tmp_path: Path, engine: str
) -> None:
    (project / "sounds").mkdir()
    home = tmp_path / "home"
    for text in ("one", "two"):
        (project / "sounds" / "a.txt").write_text(text)
        task = exported(engine, project, "--set", "data.path=sounds")
        task.place_uploads(home)
        (home / "halfstep-task" / "data-0123456789abcdef-part").mkdir()  # of a task that was stopped
        started(task, engine, home)
        assert (home / "halfstep-task" / "project" / "sounds" / "a.txt").read_text() == text
    assert len(list((home / "halfstep-task").glob("data-*"))) == 1


@pytest.mark.parametrize(
    "name", [".git/config", "part/.git", "__pycache__/key", ".halfstep/key", ".DS_Store", "id_rsa"]
)
@pytest.mark.parametrize("engine", ENGINES)
def test_SE_what_a_sync_would_not_send_is_not_packed(project: Path, engine: str, name: str) -> None:
    path = project / "sounds" / name
    path.parent.mkdir(parents=True)
    path.write_text(KEY)
    (project / "sounds" / "a.txt").write_text("one")
    assert packed(exported(engine, project, "--set", "data.path=sounds")) == {"a.txt": b"one"}


@pytest.mark.parametrize("engine", ENGINES)
def test_SE_the_engine_gets_only_regular_files_that_the_export_wrote(
    project: Path, tmp_path: Path, engine: str
) -> None:
    """A data folder with the files of a git repository made SkyPilot run the command in its `core.fsmonitor`."""
    for name in ("HEAD", "config", "objects/.keep", "refs/.keep", ".skyignore", "it's;id", "a.wav"):
        (tmp_path / "sounds" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "sounds" / name).write_text("[core] fsmonitor = touch pwned")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "b.wav").write_text("two")
    (tmp_path / "sounds" / "linked").symlink_to(tmp_path / "other")
    task = exported(engine, project, "--set", "data.path=../sounds")
    folder = project / ".halfstep" / "export" / f"{engine}-Paper_R64"
    assert {path.parent for path in task.uploads.values()} == {folder}
    assert all(path.is_file() and not path.is_symlink() for path in task.uploads.values())
    assert {"HEAD", "it's;id", "linked/b.wav"} < packed(task).keys()


@pytest.mark.parametrize("contents", ["longer than before", "x", "two"])
def test_SE_a_file_that_changes_after_its_scan_is_not_packed(tmp_path: Path, contents: str) -> None:
    (tmp_path / "sounds").mkdir()
    file = tmp_path / "sounds" / "a.txt"
    file.write_text("one")
    scan = scan_data(tmp_path / "sounds")
    file.write_text(contents)
    with pytest.raises(SyncRefused, match="changed after it was scanned"):
        write_data(scan, tmp_path / "data.tar")
    assert not (tmp_path / "data.tar").exists()


def test_an_export_without_data_removes_the_archive_of_an_earlier_one(project: Path) -> None:
    (project / "sounds").mkdir()
    (project / "sounds" / "a.txt").write_text("one")
    archive = exported("sky", project, "--set", "data.path=sounds").uploads["halfstep-task/data.tar"]
    exported("sky", project)
    assert not archive.exists()


def test_the_disk_of_the_machine_holds_the_data_twice(monkeypatch: pytest.MonkeyPatch, project: Path) -> None:
    (project / "sounds").mkdir()
    (project / "sounds" / "a.txt").write_text("one")
    monkeypatch.setattr(DataScan, "size_bytes", 60 * 10**9)
    monkeypatch.setattr(compose, "require_local_room", lambda file, size: None)
    disks = [exported(engine, project, "--set", "data.path=sounds").values["resources"] for engine in ENGINES]
    assert (disks[0]["disk_size"], disks[1]["disk"]) == (220, "220GB..")


def test_data_without_room_on_the_laptop_is_not_packed(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "sounds").mkdir()
    (project / "sounds" / "a.txt").write_text("one")
    monkeypatch.setattr(DataScan, "size_bytes", 10**18)
    assert run(["export", "sky", "--config", "Paper_R64", "--set", "data.path=sounds"]) == ExitCode.DISK


@pytest.mark.parametrize("words", [(), ("--set", "data.path=sounds")])
def test_SE_a_folder_in_place_of_the_archive_is_refused(project: Path, words: tuple[str, ...]) -> None:
    (project / "sounds").mkdir()
    (project / "sounds" / "a.txt").write_text("one")
    (project / ".halfstep" / "export" / "sky-Paper_R64" / "data.tar" / "more").mkdir(parents=True)
    assert run(["export", "sky", "--config", "Paper_R64", *words]) == ExitCode.USAGE
