"""What a killed writer left is swept by the next; what a living one writes, or one elsewhere, is left alone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.records.files import write_whole as write_here
from remote.payload.atomic import write_whole as write_there
from remote.protocol.parts import PART, make_part, sweep
from remote.sync.digests import write_state

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
    # Not waited for yet: a dead writer that nobody reaped is dead all the same.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    write(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert process.wait() == -signal.SIGKILL


@pytest.mark.parametrize("name", ["00000000-1-1-abc", "staged", "00000000-x-1-abc"])
def test_what_may_be_another_machine_s_is_left_alone(tmp_path: Path, name: str) -> None:
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


def test_a_folder_that_is_not_there_has_no_parts(tmp_path: Path) -> None:
    sweep(str(tmp_path / "none"))
