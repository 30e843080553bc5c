"""The probe of the disk reports how much it tried to write."""

from __future__ import annotations

import errno
import os

import pytest

from remote.payload.probes import environment

MIB = 2**20


@pytest.mark.parametrize("wanted", [64 * MIB, 0])
def test_a_failed_test_write_names_its_size_and_the_free_space(
    tmp_path, monkeypatch: pytest.MonkeyPatch, wanted: int
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    disk = environment.write_disk(str(tmp_path / "runs"), wanted)
    size = "67.1 MB" if wanted else "1.0 MB"
    assert disk.error.startswith(f"no space left on the file system for a test file of {size} (")
    assert disk.error.endswith(" were free)")


def test_a_written_test_file_is_removed(tmp_path) -> None:
    assert environment.write_disk(str(tmp_path), MIB).error == ""
    assert list(tmp_path.iterdir()) == []
