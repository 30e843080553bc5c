"""Writing a file is atomic; parts of a killed writer are removed, those of a living one stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records.files import write_atomic as write_here
from remote.payload.files.atomic import write_atomic as write_there
from remote.project.digests import write_state
from remote.protocol.parts import PART, make_part, replacing, sweep, write_beside

WRITER = """
import sys, time
from remote.protocol.parts import make_part
print(make_part(sys.argv[1])[1], flush=True)
time.sleep(600)
"""


def a_writer(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen([sys.executable, "-c", WRITER, folder], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


@pytest.mark.parametrize("before", [None, b"older and longer"])
@pytest.mark.parametrize("mode", [0o644, 0o600, 0o755])
def test_a_file_is_replaced_whole_with_its_mode_and_nothing_is_left_beside_it(tmp_path: Path, before, mode) -> None:
    path = tmp_path / "record"
    if before is not None:
        path.write_bytes(before)
    write_beside(str(path), b"newer", mode)
    assert (path.read_bytes(), path.stat().st_mode & 0o7777) == (b"newer", mode)
    assert os.listdir(tmp_path) == ["record"]


def test_a_reader_sees_the_old_bytes_until_the_new_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(b"old")
    with replacing(str(path)) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"


def test_a_name_without_a_folder_is_written_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_beside("record", b"{}", 0o644)
    assert os.listdir(tmp_path) == ["record"]


@pytest.mark.parametrize("fault", [OSError, KeyboardInterrupt])
def test_a_write_that_is_cut_leaves_the_old_bytes_and_nothing_beside_them(tmp_path: Path, fault) -> None:
    (tmp_path / "record").write_bytes(b"old")
    with pytest.raises(fault), replacing(str(tmp_path / "record")) as file:
        file.write(b"half of")
        raise fault
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"record": b"old"}


def test_a_path_that_cannot_be_replaced_is_an_error_and_leaves_no_part(tmp_path: Path) -> None:
    (tmp_path / "record").mkdir()
    with pytest.raises(IsADirectoryError):
        write_beside(str(tmp_path / "record"), b"new", 0o644)
    assert os.listdir(tmp_path) == ["record"]


@pytest.mark.parametrize(
    "write",
    [
        lambda folder: write_there(str(folder / "record.json"), b"{}"),
        lambda folder: write_here(folder / "record.json", b"{}"),
        lambda folder: write_state(folder, "record.json", {}),
    ],
    ids=["there", "here", "state"],
)
def test_a_killed_writer_leaves_nothing_once_another_has_written(tmp_path: Path, write) -> None:
    process, part = a_writer(tmp_path)
    try:
        write(tmp_path)
        assert part.exists(), "a living writer lost its file"
    finally:
        process.kill()
    # A zombie: a dead writer counts as dead before its parent has waited for it.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("name", ["00000000-1-1-abc", "staged", "00000000-x-1-abc"])
def test_parts_that_may_belong_to_another_machine_are_kept(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{PART}{name}").touch()
    sweep(str(tmp_path))
    assert (tmp_path / f"{PART}{name}").exists()


def test_a_pid_that_another_process_has_now_does_not_keep_a_part(tmp_path: Path) -> None:
    fd, part = make_part(str(tmp_path))
    os.close(fd)
    stem, started, token = part.rsplit("-", 2)
    Path(part).rename(f"{stem}-{int(started) + 1}-{token}")
    sweep(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_has_no_parts(tmp_path: Path) -> None:
    sweep(str(tmp_path / "none"))
