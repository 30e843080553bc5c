"""The file that is sent is the one that was scanned, also if another user replaces it in between."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fixers.frame.disk_tree import DiskTree
from pipeline.export.bundle import pack_project
from remote.errors import SyncRefused
from remote.project.data import scan_data
from remote.project.included_files import walk_project
from remote.project.scan import scan_project
from remote.sync.stream import file_pieces

SIZE = 9


def by_link(path: Path, private: Path) -> None:
    path.unlink()
    path.symlink_to(private)


def by_folder(path: Path, private: Path) -> None:
    path.parent.rename(path.parent.with_name("old"))
    path.parent.symlink_to(private.parent)


def by_other_file(path: Path, private: Path) -> None:
    (path.parent / "new").write_bytes(private.read_bytes())
    (path.parent / "new").rename(path)


REPLACE = pytest.mark.parametrize("replace", [by_link, by_folder, by_other_file])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "p" / "sub" / "a.txt"
    path.parent.mkdir(parents=True)
    path.write_text("harmless\n")
    return path


@pytest.fixture
def private(tmp_path: Path) -> Path:
    private = tmp_path / "home" / "a.txt"
    private.parent.mkdir()
    private.write_text("private!\n")
    return private


@REPLACE
def test_SE_no_byte_of_a_file_that_replaced_scanned_data_is_sent(
    path: Path, private: Path, replace: Callable[[Path, Path], None]
) -> None:
    scan = scan_data(path.parents[1])
    replace(path, private)
    assert b"".join(piece for piece, _ in file_pieces(lambda: scan.opened("sub/a.txt"), SIZE)) == bytes(SIZE)
    with pytest.raises(SyncRefused):
        scan.read_scanned("sub/a.txt")


@REPLACE
def test_SE_no_byte_of_a_file_that_replaced_scanned_code_is_sent_or_packed(
    path: Path, private: Path, replace: Callable[[Path, Path], None]
) -> None:
    scan = scan_project(path.parents[1])
    replace(path, private)
    assert b"".join(piece for piece, _ in file_pieces(lambda: scan.opened("sub/a.txt"), SIZE)) == bytes(SIZE)
    with pytest.raises(SyncRefused):
        pack_project(scan, {}, data="")


@REPLACE
def test_SE_the_fixers_do_not_read_a_file_that_replaced_scanned_code(
    path: Path, private: Path, replace: Callable[[Path, Path], None]
) -> None:
    scan, tree = scan_project(path.parents[1]), DiskTree(path.parents[1])
    replace(path, private)
    with pytest.raises(SyncRefused, match=r"'sub/a\.txt' changed after it was scanned"):
        scan.read("sub/a.txt")
    if replace is not by_other_file:
        with pytest.raises(OSError, match=r"replaced by a link|symbolic link"):
            tree.read("sub/a.txt")


@pytest.mark.parametrize("replace", [None, by_link, by_folder, by_other_file])
def test_a_file_that_was_read_or_only_touched_has_its_scanned_content(
    path: Path, private: Path, replace: Callable[[Path, Path], None] | None
) -> None:
    scan = scan_project(path.parents[1])
    os.utime(path, (1, 1))
    assert scan.read("sub/a.txt") == b"harmless\n"
    if replace is not None:
        replace(path, private)
    assert scan.read("sub/a.txt") == b"harmless\n" and scan.derive("sub/a.txt", len) == SIZE


def test_SE_a_special_file_in_place_of_scanned_code_is_not_waited_for(path: Path) -> None:
    scan, tree = scan_project(path.parents[1]), DiskTree(path.parents[1])
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SyncRefused, match="not a regular file"):
        scan.read("sub/a.txt")
    with pytest.raises(OSError, match="not a regular file"):
        tree.read("sub/a.txt")


def test_a_file_that_the_scan_does_not_contain_is_not_read(path: Path) -> None:
    (path.parents[1] / ".env").write_text("A=1")
    scan = scan_project(path.parents[1])
    for name in (".env", "missing.txt", "../home/a.txt"):
        with pytest.raises(FileNotFoundError):
            scan.read(name)


def test_SE_data_whose_digest_is_cached_is_compared_too(path: Path, private: Path, tmp_path: Path) -> None:
    os.utime(path, (1, 1))
    for _ in range(2):
        scan = scan_data(path.parent, tmp_path / "memory")
    by_link(path, private)
    with pytest.raises(OSError, match="changed"):
        scan.opened("a.txt")


def test_SE_one_file_as_data_is_opened_as_it_was_scanned(path: Path, private: Path) -> None:
    scan = scan_data(path)
    with scan.opened("a.txt") as file:
        assert file.read() == b"harmless\n"
    by_link(path, private)
    with pytest.raises(OSError, match="changed"):
        scan.opened("a.txt")


def test_SE_a_folder_that_is_replaced_during_the_walk_is_not_entered(
    path: Path, private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other user replaces the folder after the folder above it has been listed."""
    scandir = os.scandir

    def listed(place: int) -> object:
        entries = list(scandir(place))
        if not path.parent.is_symlink():
            by_folder(path, private)
        return Listing(entries)

    monkeypatch.setattr(os, "scandir", listed)
    walk = walk_project(path.parents[1])
    assert "sub/a.txt" not in walk.files and "replaced" in walk.unreadable["sub"]


class Listing(list[object]):
    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_SE_the_real_path_of_the_file_that_was_read_decides_whether_it_is_a_secret(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The link is placed after the path was judged, right before the file is opened."""
    private = tmp_path / "home" / ".ssh" / "notes"
    private.parent.mkdir(parents=True)
    private.write_text("private!\n")
    realpath = os.path.realpath

    def judged(one: Path) -> str:
        real = realpath(one)
        if one == path:
            by_link(path, private)
        return real

    monkeypatch.setattr(os.path, "realpath", judged)
    with pytest.raises(SyncRefused, match="no file of"):
        scan_data(path.parent)
