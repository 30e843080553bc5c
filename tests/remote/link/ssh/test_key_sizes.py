"""Key files with numbers of absurd sizes are refused before paramiko computes with them; usual keys are read."""

from __future__ import annotations

import base64
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import paramiko
import pytest

from remote.link.ssh.key_files import (
    LARGEST_PRIVATE,
    PrivateKeyFile,
    decrypt_private_key,
    read_private_key,
    read_public_key,
)
from remote.link.ssh.login import LoginStrategy
from remote.link.ssh.route import ResolvedHop
from tests.lab.sshd import make_key
from tests.remote.link.ssh.key_forms import der, odd, openssh, pem, pkcs1, rsa_public, string

SOON_S = 2.0


P, E = odd(20_000), 65537
LARGE_RSA = [odd(32_000), E, 5, 5, odd(16_000), odd(16_000)]
STRANGE = {
    "openssh, large primes": openssh([P * P, E, 5, 5, P, P]),
    "openssh, one large prime": openssh([P * 3, E, 5, 5, P, 3]),
    "openssh, primes above half of the modulus": openssh([odd(16_000), E, 5, 5, odd(15_000), odd(1000)]),
    "openssh, another type in the private part": openssh([P * P, E, 5, 5, P, P], kind=b"ssh-ed25519"),
    "openssh, the type of a signature": openssh([P * P, E, 5, 5, P, P], public=string(b"rsa-sha2-512")),
    "openssh, truncated": openssh([5, E]),
    "openssh, many rounds": openssh([5] * 6, rounds=2**31),
    "openssh, encrypted and large": openssh([odd(100_000)] * 3, rounds=16),
    "pkcs1, large primes": pem("RSA", pkcs1([0, P * P, E, 5, P, P, 5, 5, 5])),
    "pkcs1, one large prime": pem("RSA", pkcs1([0, P * 3, E, 5, P, 3, 5, 5, 5])),
    "pkcs1, encrypted and large": pem("RSA", bytes(20_000), "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n"),
    "pkcs8 in a pkcs1 block": pem("RSA", der(0x30, der(2, b"\0") + der(0x30, b"") + der(4, pkcs1(LARGE_RSA)))),
    "pkcs1 in an EC block": pem("EC", pkcs1([0, P * P, E, 5, P, P, 5, 5, 5])),
    "pkcs8": pem("", pkcs1(LARGE_RSA)).replace("BEGIN  ", "BEGIN ").replace("END  ", "END "),
    "after a small block": pem("EC", b"") + openssh([P * P, E, 5, 5, P, P]),
    "indefinite length": pem("RSA", b"\x30\x80" + pkcs1([0, P * P, E, 5, P, P])[5:] + b"\0\0"),
    "no end": openssh([P * P, E, 5, 5, P, P]).partition("-----END")[0],
}


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Count the keys that paramiko builds."""
    calls: list[str] = []
    for name in ("RSAKey", "ECDSAKey", "Ed25519Key"):
        build = getattr(paramiko, name).__init__

        def counted(
            self: object, *args: object, build: Callable[..., None] = build, name: str = name, **more: object
        ) -> None:
            calls.append(name)
            build(self, *args, **more)

        monkeypatch.setattr(getattr(paramiko, name), "__init__", counted)
    return calls


def login(key: Path) -> list[str]:
    """Return what a login with this key reports, up to the first key that it would offer."""
    hop = ResolvedHop("h", "127.0.0.1", 22, "u", identity_files=(str(key),), identities_only=True)
    strategy = LoginStrategy(hop, None)
    offered = [candidate.label for candidate in strategy._candidates(None) if candidate.key]
    return strategy.tried + offered


@pytest.mark.parametrize("name", STRANGE)
def test_SE_a_private_key_of_an_absurd_size_is_refused_at_once(name: str, tmp_path: Path, computed: list[str]) -> None:
    key = tmp_path / "key"
    key.write_text(STRANGE[name])
    key.chmod(0o600)
    start = time.process_time()
    (reported,) = login(key)
    assert reported.startswith(f"{key} (not a private key of a known type")
    assert decrypt_private_key(key, "secret").key is None
    assert time.process_time() - start < SOON_S
    assert name == "after a small block" or computed == []


def test_SE_a_public_key_of_an_absurd_size_is_ignored(tmp_path: Path, computed: list[str]) -> None:
    (tmp_path / "key.pub").write_text(f"ssh-rsa {base64.b64encode(rsa_public(200_000)).decode()} x\n")
    assert read_public_key(tmp_path / "key") is None
    assert computed == []


def test_SE_a_certificate_of_an_absurd_size_is_not_read(tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    Path(f"{key}-cert.pub").write_text("x" * LARGEST_PRIVATE)
    assert "larger than" in read_private_key(key).problem


def test_the_files_of_a_key_are_parsed_once_for_all_tries(tmp_path: Path, computed: list[str]) -> None:
    key = make_key(tmp_path / "key", kind="rsa")
    for _ in range(5):
        assert login(key) == [str(key)]
    assert computed == ["RSAKey", "RSAKey"], "once for the public and once for the private file"
    key.write_text(make_key(tmp_path / "other", kind="ecdsa").read_text())
    loaded = read_private_key(key).key
    assert loaded is not None and loaded.get_name() == "ecdsa-sha2-nistp256", "a changed file is read again"


FORMS = {
    "ed25519": [],
    "ecdsa": [],
    "rsa": [],
    "ecdsa PEM": ["-m", "PEM"],
    "rsa PEM": ["-m", "PEM"],
    "ecdsa of 521 bits": ["-b", "521"],
    "rsa of 4096 bits": ["-b", "4096"],
}


@pytest.mark.parametrize("passphrase", ["", "open sesame"])
@pytest.mark.parametrize("name", FORMS)
def test_usual_keys_are_read(name: str, passphrase: str, tmp_path: Path) -> None:
    key, keygen = tmp_path / "key", shutil.which("ssh-keygen")
    assert keygen
    options = [*FORMS[name], "-a", "4", "-t", name.split(maxsplit=1)[0], "-N", passphrase, "-C", "a comment"]
    subprocess.run([keygen, "-q", "-f", str(key), *options], check=True, stdin=subprocess.DEVNULL)
    public, file = read_public_key(key), read_private_key(key)
    assert public is not None and not file.problem
    assert file.encrypted is bool(passphrase)
    loaded = decrypt_private_key(key, passphrase).key if passphrase else file.key
    assert loaded is not None and loaded.asbytes() == public.asbytes()
    assert not passphrase or decrypt_private_key(key, "wrong") == PrivateKeyFile(encrypted=True)


def test_a_certificate_beside_a_key_is_presented(tmp_path: Path) -> None:
    authority, key, keygen = make_key(tmp_path / "ca"), make_key(tmp_path / "key"), shutil.which("ssh-keygen")
    assert keygen
    subprocess.run([keygen, "-q", "-s", str(authority), "-I", "me", "-n", "u", f"{key}.pub"], check=True)
    loaded = read_private_key(key).key
    assert loaded is not None and loaded.public_blob.key_type == "ssh-ed25519-cert-v01@openssh.com"


@pytest.mark.parametrize("ending", ["\r\n", "\n"])
def test_text_around_a_key_is_ignored(ending: str, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key", kind="rsa")
    key.write_bytes(("a note\n" + key.read_text() + "another\n").replace("\n", ending).encode())
    assert read_private_key(key).key is not None
