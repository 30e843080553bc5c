"""Work folders of any name, and disks that are full, read-only or noexec."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from remote.errors import BadUsage, HostUnfit
from remote.link.bundle import payload_bundle
from remote.link.reach import open_host
from remote.protocol.exits import ExitCode
from tests.lab.mounts import why_no_mounts
from tests.lab.sshd import Sshd

StartSshd = Callable[..., Sshd]


def mounted(tmp_path: Path, options: str) -> tuple[tuple[str, ...], Path]:
    """Return a command prefix that mounts a file system on a folder, and the folder."""
    if reason := why_no_mounts():
        pytest.skip(reason)
    folder = tmp_path / "mounted"
    folder.mkdir()
    script = f'mount -t tmpfs -o mode=755,{options} none {folder} && exec "$@"'
    return ("unshare", "-m", "sh", "-c", script, "sh"), folder


@pytest.mark.root
@pytest.mark.parametrize(
    ("options", "words"),
    [("size=16k", "No space left"), ("nr_inodes=3", "No space left"), ("ro", "Read-only file system")],
)
def test_BI_46_a_disk_that_cannot_store_the_payload_is_reported(
    start_sshd: StartSshd, tmp_path: Path, options: str, words: str
) -> None:
    prefix, folder = mounted(tmp_path, options)
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")))
    with pytest.raises(HostUnfit, match=words) as caught:
        host.probe(["true"])
    host.close()
    assert caught.value.exit_code is ExitCode.DISK
    assert ("`workdir:`" in caught.value.hint) is (options == "ro")
    assert str(folder) in caught.value.message
    assert f"{len(payload_bundle().data)} bytes needed" in caught.value.message


@pytest.mark.root
@pytest.mark.parametrize("options", ["size=16k", "ro"])
def test_BI_46_a_host_with_a_full_disk_can_still_be_surveyed(
    start_sshd: StartSshd, tmp_path: Path, options: str
) -> None:
    prefix, folder = mounted(tmp_path, options)
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")), keep=False)
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


@pytest.mark.root
def test_BI_46_a_noexec_disk_can_hold_the_payload(start_sshd: StartSshd, tmp_path: Path) -> None:
    prefix, folder = mounted(tmp_path, "noexec")
    host = open_host(start_sshd(prefix=prefix).address(workdir=str(folder / "halfstep")))
    assert host.probe(["echo", "hi"]).stdout == b"hi\n"
    host.close()


@pytest.mark.parametrize("name", ["with space", "it's", 'a"b', "$HOME", "-rf", "a;b", "näme", "*", "{host}", "a\\b"])
def test_BI_47_a_workdir_of_any_name_is_that_folder(sshd: Sshd, name: str) -> None:
    host = open_host(sshd.address(workdir=str(sshd.home / name)))
    host.write_bytes("file", b"x")
    assert (sshd.home / name / "file").read_bytes() == b"x"
    host.close()


def test_BI_47_tilde_is_the_hosts_home_folder(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="~/half step"))
    assert host.workdir == str(sshd.home / "half step")
    host.close()


def test_BI_47_a_relative_workdir_lies_in_the_home(sshd: Sshd) -> None:
    host = open_host(sshd.address(workdir="work"))
    assert host.workdir == str(sshd.home / "work")
    host.close()


@pytest.mark.parametrize("workdir", ["~nobody-of-that-name/x", "a\nb", "a\0b", ""])
def test_BI_47_an_impossible_workdir_is_rejected(sshd: Sshd, workdir: str) -> None:
    with pytest.raises((BadUsage, HostUnfit)) as caught:
        open_host(sshd.address(workdir=workdir)).probe(["true"])
    assert "workdir" in caught.value.message or workdir in caught.value.message
