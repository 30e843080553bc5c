"""Which files belong to data, and the digest that identifies it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remote.errors import SyncRefused
from remote.project.data import scan_data
from remote.protocol.exits import ExitCode


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A corpus of four recordings and an index."""
    folder = tmp_path / "corpus"
    (folder / "wavs").mkdir(parents=True)
    for number in range(4):
        (folder / "wavs" / f"{number}.wav").write_bytes(os.urandom(300_000))
    (folder / "index.json").write_text("[]")
    return folder


def test_the_digest_is_of_names_and_bytes_alone(data, tmp_path):
    first = scan_data(data).digest
    os.utime(data / "index.json", (1, 1))
    assert scan_data(data, tmp_path / "memory").digest == first == scan_data(data, tmp_path / "memory").digest
    (data / "index.json").rename(data / "other.json")
    assert scan_data(data).digest != first


def test_what_cannot_be_read_is_named(tmp_path, data):
    with pytest.raises(SyncRefused, match="does not exist"):
        scan_data(tmp_path / "nothing")
    os.mkfifo(data / "pipe")
    with pytest.raises(SyncRefused, match="pipe") as refused:
        scan_data(data)
    assert refused.value.exit_code == ExitCode.SYNC


def test_links_are_followed_once(tmp_path, data):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "x.wav").write_bytes(b"x")
    os.symlink(elsewhere, data / "more")
    os.symlink(data, data / "self")
    assert set(scan_data(data).files) == {"index.json", *(f"wavs/{n}.wav" for n in range(4)), "more/x.wav"}


def test_secrets_beside_the_data_stay_on_the_laptop(data):
    (data / ".env").write_text("A=1")
    scan = scan_data(data)
    assert ".env" not in scan.files and [finding.where for finding in scan.report.findings] == [".env"]
