"""A host key that the user or an administrator has revoked is refused."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from remote.link.reach import open_host
from remote.link.ssh.known_hosts import HostKey
from remote.link.ssh.revoked_keys import is_listed
from tests.lab.sshd import Sshd, make_key
from tests.remote.link.ssh.refused_keys import attempts, refused


def test_BI_34_a_revoked_key_is_refused_although_it_is_known(sshd: Sshd) -> None:
    names, kind, encoded = sshd.known_line().split()
    sshd.known_hosts.write_text(f"@revoked * {kind} {encoded}\n{names} {kind} {encoded}\n")
    before = sshd.known_hosts.read_bytes()
    assert "revoked" in refused(sshd).message
    assert attempts(sshd) == []
    assert sshd.known_hosts.read_bytes() == before


def test_a_revoked_key_is_found_on_its_own_line_and_not_in_a_comment(tmp_path: Path) -> None:
    kind, encoded = Path(f"{make_key(tmp_path / 'key')}.pub").read_text().split()[:2]
    key = HostKey(kind, base64.b64decode(encoded))
    for text in (f"{kind} {encoded} me", f"\t{kind}\t{encoded}\r\n", f"# \xff\n{kind} {encoded}\n", encoded):
        assert is_listed(text.encode("latin-1"), key)
    for text in (
        f"#{kind} {encoded}\n",
        f" # a\f{kind} {encoded}\n",
        f"# a\r{kind} {encoded}\n",
        f"{kind} \xff\n",
        "\n",
    ):
        assert not is_listed(text.encode("latin-1"), key)


def revoked_list(folder: Path, keys: list[str], binary: bool) -> Path:
    """Return a file for RevokedHostKeys, as text or in the format of ssh-keygen -k."""
    path, text = folder / "revoked keys", folder / "keys"
    text.write_text("".join(f"{key}\n" for key in keys))
    if binary:
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", path, text], check=True)
    else:
        text.rename(path)
    return path


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("plain", [False, True], ids=["ssh -G", "without OpenSSH"])
def test_a_key_in_a_file_of_RevokedHostKeys_is_refused_although_it_is_known(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, binary: bool, plain: bool
) -> None:
    other = Path(f"{make_key(tmp_path / 'other')}.pub").read_text().strip()
    own = " ".join(sshd.known_line().split()[1:])
    config = tmp_path / "config"
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    if plain:
        programs = tmp_path / "bin"
        programs.mkdir()
        (programs / "ssh-keygen").symlink_to(str(shutil.which("ssh-keygen")))
        monkeypatch.setenv("PATH", str(programs))
    for keys, accepted in (["# comment", other], True), ([other, f"{own} me@box"], False), ([f"#{own}"], True):
        if binary and not any(not key.startswith("#") for key in keys):
            continue
        config.write_text(f'Host *\n  RevokedHostKeys "{revoked_list(tmp_path, keys, binary)}"\n')
        for pin in (None, sshd.fingerprint()):
            if accepted:
                host = open_host(sshd.address(host_key=pin))
                assert host.probe(["true"]).ok
                host.close()
            else:
                message = refused(sshd, host_key=pin).message
                assert "presents a revoked host key" in message and "revoked keys, which RevokedHostKeys" in message
        (tmp_path / "revoked keys").unlink()
    assert "Accepted" in sshd.log


@pytest.mark.parametrize("how", ["missing", "a folder", "a FIFO", "damaged"])
def test_a_file_of_RevokedHostKeys_that_cannot_be_read_refuses_every_key(
    sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "revoked"
    if how == "a folder":
        path.mkdir()
    elif how == "a FIFO":
        os.mkfifo(path)
    elif how == "damaged":
        path.write_bytes(b"SSHKRL\n\0 damaged")
    config = tmp_path / "config"
    config.write_text(f"Host *\n  RevokedHostKeys {path}\n")
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(config))
    error = refused(sshd)
    assert f"cannot read {path} (" in error.message and "no host key can be verified" in error.message
    assert error.hint == f"ls -lL {path}" and attempts(sshd) == []
