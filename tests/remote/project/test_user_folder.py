"""The folders of halfstep in the user's home folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pipeline.records.consents import keep_consent
from remote.link import bundle
from remote.link.ssh.host_keys import add_known_host, own_known_hosts
from remote.link.ssh.known_hosts import HostKey
from remote.project.user_folder import create_private, sign, user_file


@pytest.fixture
def umask_of_none() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def store_bundle() -> None:
    bundle.payload_bundle.cache_clear()
    bundle.payload_bundle()


@pytest.mark.parametrize(
    "write",
    [
        store_bundle,
        lambda: sign(b"data"),
        lambda: keep_consent(user_file("trusted_data"), "one"),
        lambda: add_known_host(own_known_hosts(), "titan", HostKey("ssh-ed25519", b"key")),
    ],
    ids=["payload", "key", "consent", "host key"],
)
def test_SE_folders_in_the_home_folder_are_created_for_the_user_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask_of_none: None, write: Callable[[], object]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home/.cache"))
    write()
    created = [path for path in (tmp_path / "home").rglob("*") if path.is_dir()]
    assert len(created) >= 2
    assert {path.stat().st_mode & 0o777 for path in (*created, tmp_path / "home")} == {0o700}


def test_a_folder_that_exists_keeps_its_mode_and_a_file_in_its_place_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o755)
    create_private(tmp_path / "shared")
    assert (tmp_path / "shared").stat().st_mode & 0o777 == 0o755
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file/below"):
        with pytest.raises(OSError, match=r"exists|directory"):
            create_private(path)
