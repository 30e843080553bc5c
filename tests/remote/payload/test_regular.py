"""Files of other users are read only if they are regular, and only up to a limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.payload.files.regular import read_regular


def test_a_regular_file_up_to_the_limit_is_read_also_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"1234")
    (tmp_path / "link").symlink_to("file")
    assert read_regular(str(tmp_path / "link"), 4) == b"1234"
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(str(tmp_path / "file"), 3)
    with pytest.raises(FileNotFoundError):
        read_regular(str(tmp_path / "missing"), 4)


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
        read_regular(str(path), 4)
