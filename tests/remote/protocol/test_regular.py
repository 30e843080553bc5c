"""Files of other users are read only if they are regular, and only up to a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.protocol.regular import open_regular, read_regular


def test_a_regular_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    assert read_regular(tmp_path / "file", 4) == b"1234"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(str(tmp_path / "file"), 3)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "missing", 4)


def test_a_link_is_read_only_where_the_caller_follows_links(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(tmp_path / "link", 4, follow=True) == b"1234"
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "link", 4)
    with pytest.raises(OSError, match="symbolic links"):
        open_regular(tmp_path / "link")


@pytest.mark.parametrize("kind", ["endless device", "FIFO", "folder"])
def test_anything_else_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "planted"
    if kind == "endless device":
        path.symlink_to("/dev/zero")
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(OSError, match=r"not a regular file|Is a directory"):
        read_regular(path, 4, follow=True)
