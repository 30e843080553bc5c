"""A home folder with the alias `titan` and the host keys of machines that the user has visited."""

from __future__ import annotations

import base64
import hmac
from pathlib import Path

import pytest

ALIAS = "Host titan\n  HostName 10.0.0.1\n  User me\n"
HASHED = (b"hashed", b"[hashed-port]:2222")


@pytest.fixture(autouse=True)
def ssh_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ~/.ssh/config and known_hosts be these in every test of a module that imports this fixture."""
    (tmp_path / "ssh").write_text(ALIAS)
    monkeypatch.setenv("HALFSTEP_SSH_CONFIG", str(tmp_path / "ssh"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.ssh").mkdir(parents=True)
    (tmp_path / "home/.ssh/known_hosts").write_text(known_hosts())


def known_hosts() -> str:
    """Return entries of `visited`, of the hashed names as HashKnownHosts stores them, and of a port of `forwarded`."""
    blob = b"\0\0\0\x0bssh-ed25519" + b"\0\0\0\x20" + bytes(32)
    salt = base64.b64encode(b"salt" * 5).decode()
    hashed = [base64.b64encode(hmac.digest(b"salt" * 5, name, "sha1")).decode() for name in HASHED]
    names = ("other,visited", *(f"|1|{salt}|{digest}" for digest in hashed), "[forwarded]:2222", "203.0.113.9")
    return "".join(f"{name} ssh-ed25519 {base64.b64encode(blob).decode()}\n" for name in names)
