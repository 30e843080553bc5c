"""Files that a job created in its copy of the code are in the copy of the next job, also after a correction."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.payload.checkpoints import published
from remote.payload.checkpoints.found import find_checkpoints
from remote.payload.jobs import code_copy, created_files
from remote.protocol.layout import RunLayout
from tests.remote.jobs.jobs_bench import Bench
from tests.remote.jobs.test_checkpoints import save
from tests.remote.jobs.test_script_rotation import resume, stopped


def write(root: Path, *names: str, text: str = "made") -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


class Copies:
    """A run whose code was sent, used by a job, and replaced by a corrected copy."""

    def __init__(self, root: Path) -> None:
        self.run = RunLayout(str(root))
        self.code = root / "code"

    def send(self, *names: str, record: bool = True) -> None:
        write(self.code, *names, text="sent")
        self.code.mkdir(parents=True, exist_ok=True)
        if record:
            code_copy.record_files(self.run, str(self.code))

    def replace(self, *names: str, number: int = 2) -> list[str]:
        code_copy.set_code_aside(self.run, number)
        self.send(*names)
        return code_copy.restore_created(self.run, number)

    @property
    def earlier(self) -> list[Path]:
        return sorted(self.code.parent.glob("code-before-job-*"))

    def files(self) -> list[str]:
        return sorted(str(p.relative_to(self.code)) for p in self.code.rglob("*") if not p.is_dir())


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    yield Copies(tmp_path / "run")


def test_the_next_job_has_the_files_that_the_script_created(copies: Copies) -> None:
    copies.send("train.py", "src/model.py")
    write(copies.code, "ckpt/g_1.pt", "ckpt/sub/g_2.pt", "src/cache.bin", "log.txt")
    (copies.code / "ckpt" / "empty").mkdir()
    inode = (copies.code / "ckpt" / "g_1.pt").stat().st_ino
    assert copies.replace("train.py", "src/model.py", "src/new.py") == ["ckpt", "log.txt", "src/cache.bin"]
    assert (copies.code / "ckpt" / "g_1.pt").stat().st_ino == inode, "nothing is copied"
    assert (copies.code / "ckpt" / "empty").is_dir()
    assert sorted(path.name for path in copies.earlier[0].iterdir()) == ["src", "train.py"]
    assert copies.replace("train.py", number=3) == ["ckpt", "log.txt", "src/cache.bin"]


def test_a_file_that_is_sent_now_is_kept_and_so_is_the_created_one(copies: Copies) -> None:
    copies.send("train.py")
    write(copies.code, "vocab.json", "out/weights.pt", "taken/file.pt")
    assert copies.replace("train.py", "vocab.json", "out/readme.md", "taken") == ["out/weights.pt"]
    assert (copies.code / "vocab.json").read_text() == "sent"
    assert (copies.earlier[0] / "vocab.json").read_text() == "made"
    assert (copies.earlier[0] / "taken" / "file.pt").exists()


def test_sent_files_stay_also_if_they_are_no_longer_sent_or_were_changed(copies: Copies) -> None:
    copies.send("train.py", "old.py", "base/model.pt")
    write(copies.code, "old.py", "base/tuned.pt")
    assert copies.replace("train.py") == ["base/tuned.pt"]
    assert copies.files() == ["base/tuned.pt", "train.py"]


def test_compiled_files_stay(copies: Copies) -> None:
    copies.send("train.py", "ext/core.pyx")
    write(copies.code, "ext/core.cpython-311.so", "__pycache__/train.pyc", "build/temp/core.o", "build/info.txt")
    assert copies.replace("train.py", "ext/core.pyx") == ["build/info.txt"]


def test_links_and_other_kinds_of_files(copies: Copies, tmp_path: Path) -> None:
    copies.send("train.py")
    write(copies.code, "out/g_1.pt")
    write(tmp_path / "data", "a.wav")
    (copies.code / "latest").symlink_to("out/g_1.pt")
    (copies.code / "newest").symlink_to(copies.code / "out" / "g_1.pt")
    (copies.code / "data").symlink_to(tmp_path / "data")
    os.mkfifo(copies.code / "out" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        at = os.getcwd()
        os.chdir(copies.code)
        try:
            listener.bind("socket")
        finally:
            os.chdir(at)
    moved = copies.replace("train.py")
    assert moved == ["latest", "newest", "out", "socket"]
    assert (copies.code / "newest").read_text() == "made"


def test_a_folder_that_cannot_be_read_or_moved_stays(copies: Copies, monkeypatch: pytest.MonkeyPatch) -> None:
    copies.send("train.py")
    write(copies.code, "locked/a.pt", "mounted/b.pt", "out/c.pt")
    scan, rename = os.scandir, os.rename

    def scanning(path: str) -> object:
        if str(path).endswith("locked/"):
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    def renaming(source: str, target: str) -> None:
        if source.endswith("mounted"):
            raise OSError(16, "Device or resource busy", source)
        rename(source, target)

    code_copy.set_code_aside(copies.run, 2)
    copies.send("train.py")
    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scanning)
        patch.setattr(os, "rename", renaming)
        assert code_copy.restore_created(copies.run, 2) == ["out"]


def test_nothing_is_moved_through_a_link_of_the_new_copy(copies: Copies, tmp_path: Path) -> None:
    copies.send("train.py")
    write(copies.code, "out/g_1.pt")
    (tmp_path / "tree").mkdir()
    code_copy.set_code_aside(copies.run, 2)
    copies.code.mkdir()
    (copies.code / "out").symlink_to(tmp_path / "tree")
    assert code_copy.restore_created(copies.run, 2) == []
    assert os.listdir(tmp_path / "tree") == []


def test_a_checkpoint_is_moved_completely_or_not_at_all(copies: Copies) -> None:
    copies.send("train.py", "old/checkpoint-5/optimizer.pt")
    write(copies.code, "old/checkpoint-5/trainer_state.json", "out/checkpoint-10/a.pt")
    assert copies.replace("train.py") == ["out"]
    assert (copies.earlier[0] / "old" / "checkpoint-5" / "trainer_state.json").exists()


def test_a_copy_of_an_earlier_halfstep_keeps_its_files(copies: Copies) -> None:
    copies.send("train.py", record=False)
    write(copies.code, "ckpt/g_1.pt")
    assert copies.replace("train.py") == []
    assert (copies.earlier[0] / "ckpt" / "g_1.pt").exists()
    text = code_copy.describe_change(copies.run, 2, [])
    assert copies.earlier[0].name in text and "no file that they created was moved" in text


@pytest.mark.parametrize("moves", [0, 1, 2, 3])
@pytest.mark.parametrize("sent_again", [True, False])
def test_a_start_that_was_killed_loses_no_file(
    copies: Copies, monkeypatch: pytest.MonkeyPatch, moves: int, sent_again: bool
) -> None:
    copies.send("train.py")
    write(copies.code, "a/1.pt", "b/2.pt", "c.pt")
    offered = f"{copies.run.code}/b"
    done: list[str] = []
    move = created_files._move

    def killed(*paths: str) -> bool:
        if len(done) == moves:
            raise KeyboardInterrupt
        done.append(paths[-1])
        return move(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(created_files, "_move", killed)
        if moves < 3:
            with pytest.raises(KeyboardInterrupt):
                copies.replace("train.py")
        else:
            copies.replace("train.py")
    if sent_again:
        copies.replace("train.py", "new.py")
    else:
        code_copy.restore_created(copies.run, 2)
    assert [name for name in copies.files() if name.endswith(".pt")] == ["a/1.pt", "b/2.pt", "c.pt"]
    assert code_copy.moved_path(copies.run, 2, offered) == offered
    stale = offered.replace("/code/", f"/{copies.earlier[0].name}/")
    assert code_copy.moved_path(copies.run, 2, stale) == offered


def test_a_moved_trainer_checkpoint_is_still_verified_and_listed_once(copies: Copies) -> None:
    copies.send("train.py")
    published.publish(str(save(copies.code / "out", 10)))
    copies.replace("train.py")
    assert find_checkpoints(copies.run.root) == [f"{copies.run.code}/out/checkpoint-10"]
    assert published.newest_verified(copies.run.root, trust_stat=True) is not None


def test_a_corrected_script_finds_the_folder_of_its_own_checkpoints(bench: Bench) -> None:
    words = ("--save-every", 10, "--output", "out", "--until", "/never", "--step-s", 0)
    stopped(bench, "--steps", 20, *words)
    offered = resume(bench)
    stopped(bench, "--steps", 30, *words, number=2, resume_from=offered, request={"fresh_code": True})
    assert bench.events("begin")[-1]["resume"] == offered
    assert "moved to the new code/: out" in bench.starts[-1].notes[0]
    assert len(bench.survey().checkpoints) == 3
