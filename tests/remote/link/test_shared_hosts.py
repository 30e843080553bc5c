"""Hosts with other users: files that they plant are never executed, and they cannot plant any."""

from __future__ import annotations

import os
import pwd
import shutil
import stat
import subprocess
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from remote.errors import HostUnfit
from remote.link.agent import AgentHost
from remote.link.local import local_host
from remote.link.streams import LocalProcessStream, LocalStarter, ProcessStream
from remote.protocol.exits import ExitCode
from tests.lab.wait import until

pytestmark = pytest.mark.root
Account = Callable[..., str]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that every user can write to, with the sticky bit, like /scratch on many clusters."""
    folder = Path(tempfile.mkdtemp(prefix="hs-scratch-"))
    folder.chmod(0o1777)
    yield folder

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    until(is_gone, "the removal, although the payload may still be compiled there")


def ran_as(user: str, *argv: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        ["setpriv", f"--reuid={user}", "--clear-groups", "--", *argv], check=False, capture_output=True
    )


def settled(workdir: Path) -> Path:
    """Return the byte code in the workdir after the payload was compiled."""
    host = local_host(str(workdir))
    assert host.list_files("nothing") == ()
    host.close()
    until(lambda: any((workdir / "payload").glob("*.zip")), "byte code")
    return next((workdir / "payload").glob("*.zip"))


def planted(byte_code: Path, trace: Path) -> bytes:
    """Return a zip in which each module that the agent imports writes a file when it is imported."""
    evil = byte_code.with_name("evil")
    with zipfile.ZipFile(evil, "w") as archive:
        for name in ("remote/__init__.py", "remote/payload/__init__.py", "remote/payload/__main__.py"):
            archive.writestr(name, f"open({str(trace)!r}, 'w')\nimport sys\nsys.exit(0)\n")
    data = evil.read_bytes()
    evil.unlink()
    return data


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("which", ["", "payload", "projects"])
def test_SE_01_a_folder_of_ours_that_others_may_write_to_is_refused(tmp_path: Path, which: str, keep: bool) -> None:
    workdir = tmp_path / "work dir"
    byte_code = settled(workdir)
    (workdir / "projects").mkdir(exist_ok=True)
    byte_code.write_bytes(planted(byte_code, tmp_path / "ran"))
    (workdir / which).chmod(0o777)
    with pytest.raises(HostUnfit, match="is writable by other users") as caught:
        local_host(str(workdir), keep=keep).probe(["true"])
    assert caught.value.exit_code is ExitCode.DISK
    assert not (tmp_path / "ran").exists()
    subprocess.run(["sh", "-c", caught.value.hint.partition("   (")[0]], check=True)
    assert local_host(str(workdir), keep=keep).probe(["true"]).ok
    assert not (tmp_path / "ran").exists()


def test_SE_01_a_workdir_of_another_user_is_refused(tmp_path: Path, account: Account) -> None:
    workdir = tmp_path / "work"
    workdir.mkdir(mode=0o755)
    shutil.chown(workdir, account())
    with pytest.raises(HostUnfit, match="belongs to another user") as caught:
        local_host(str(workdir)).probe(["true"])
    assert caught.value.exit_code is ExitCode.DISK and "`workdir:`" in caught.value.hint
    assert list(workdir.iterdir()) == []


def test_SE_01_a_workdir_behind_a_link_of_another_user_is_refused(shared: Path, account: Account) -> None:
    other = account()
    assert ran_as(other, "mkdir", f"{shared}/theirs").returncode == 0
    assert ran_as(other, "ln", "-s", "theirs", f"{shared}/halfstep").returncode == 0
    with pytest.raises(HostUnfit, match="belongs to another user"):
        local_host(f"{shared}/halfstep").probe(["true"])


@pytest.mark.parametrize("first", ["a payload that stays", "a change of a verb that only looks"])
def test_SE_01_new_folders_are_private_under_any_umask(shared: Path, account: Account, first: str) -> None:
    before = os.umask(0)
    try:
        host: AgentHost = local_host(f"{shared}/a/halfstep", keep=first == "a payload that stays")
        host.write_bytes("file", b"x")
        host.close()
    finally:
        os.umask(before)
    for folder in (shared / "a", *(path for path in (shared / "a").rglob("*") if path.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert ran_as(account(), "cat", f"{shared}/a/halfstep/file").returncode != 0


@pytest.mark.parametrize("how", ["a file of another user", "a link", "a second name", "writable", "as in a clone"])
def test_SE_01_byte_code_that_is_not_the_users_own_file_is_not_used_and_is_replaced(
    tmp_path: Path, account: Account, how: str
) -> None:
    byte_code = settled(tmp_path / "work")
    good = byte_code.read_bytes()
    if how == "a file of another user":
        shutil.chown(byte_code, account())
    elif how == "a link":
        byte_code.rename(tmp_path / "elsewhere")
        byte_code.symlink_to(tmp_path / "elsewhere")
    elif how == "a second name":
        (tmp_path / "elsewhere").hardlink_to(byte_code)
    else:
        byte_code.chmod(0o666 if how == "writable" else 0o644)
    wrong = byte_code.lstat().st_ino
    host = local_host(str(tmp_path / "work"))
    assert host.probe(["true"]).ok
    host.close()
    until(lambda: byte_code.lstat().st_ino != wrong, "new byte code")
    assert byte_code.read_bytes() == good and stat.S_IMODE(byte_code.lstat().st_mode) == 0o600


def damages() -> Iterator[tuple[str, float, bytes]]:
    yield "cut", 0.5, b""
    yield "empty", 0.0, b""
    for share in (0.001, 0.25, 0.5, 0.75, 0.999):
        yield f"byte at {share}", share, b"\xa7"


@pytest.mark.parametrize(("share", "byte"), [one[1:] for one in damages()], ids=[one[0] for one in damages()])
def test_SE_02_damaged_byte_code_is_not_used_and_repairs_itself(tmp_path: Path, share: float, byte: bytes) -> None:
    byte_code = settled(tmp_path / "work")
    good = byte_code.read_bytes()
    at = int(len(good) * share)
    byte_code.write_bytes(good[:at] + (byte + good[at + 1 :] if byte else b""))
    host = local_host(str(tmp_path / "work"))
    assert host.probe(["true"]).ok
    host.close()
    until(lambda: byte_code.read_bytes() == good, "repaired byte code")


def test_SE_02_a_read_only_verb_ignores_damaged_byte_code_and_does_not_replace_it(tmp_path: Path) -> None:
    byte_code = settled(tmp_path / "work")
    byte_code.write_bytes(b"PK damaged")
    host = local_host(str(tmp_path / "work"), keep=False)
    assert host.probe(["true"]).ok
    host.close()
    assert byte_code.read_bytes() == b"PK damaged"


class Under(LocalStarter):
    """Starts processes on this machine under another account."""

    def __init__(self, user: str) -> None:
        self._user = user

    def start(self, argv: Sequence[str]) -> ProcessStream:
        as_user = ("setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--init-groups", "--")
        return LocalProcessStream((*as_user, *argv))


@pytest.mark.parametrize("other_by", ["no account", "its members", "the primary group of an account"])
def test_SE_01_a_group_counts_as_the_user_only_while_no_other_account_has_it(account: Account, other_by: str) -> None:
    user, other = account(), account()
    workdir = Path(pwd.getpwnam(user).pw_dir) / "halfstep"
    workdir.mkdir()
    shutil.chown(workdir, user, user)
    workdir.chmod(0o775)
    if other_by != "no account":
        subprocess.run(["usermod", *(("-aG",) if other_by == "its members" else ("-g",)), user, other], check=True)
        host = AgentHost("titan", Under(user), workdir=str(workdir))
        with pytest.raises(HostUnfit, match="is writable by other users") as caught:
            host.probe(["true"])
        host.close()
        subprocess.run(["sh", "-c", caught.value.hint.partition("   (")[0]], check=True)
    host = AgentHost("titan", Under(user), workdir=str(workdir))
    assert host.probe(["id", "-un"]).stdout.decode().strip() == user
    host.close()
    subprocess.run(["usermod", "-g", other, other], check=True)  # userdel keeps a group that another account has
