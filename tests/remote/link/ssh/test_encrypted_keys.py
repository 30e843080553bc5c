"""The numbers of a private key are judged after its decryption, and the blob that is judged is the one that is used."""

from __future__ import annotations

import base64
import shutil
import stat
import subprocess
from pathlib import Path

import paramiko
import pytest

from remote.link.ssh.key_files import decrypt_private_key, read_private_key, read_public_key
from remote.link.ssh.login import LoginStrategy
from remote.link.ssh.route import ResolvedHop
from tests.lab.answers import Person
from tests.lab.sshd import make_key
from tests.remote.link.ssh.key_forms import (
    PASSPHRASE,
    encrypted_openssh,
    encrypted_pem,
    odd,
    openssh,
    pem,
    pkcs1,
)

P, Q, E = odd(20_001), odd(9_001), 65537
N = odd(2047)
LARGE = [P * Q, E, 5, 5, P, Q]
TOO_LARGE = "not a private key of a usable size: a number of"
ENCRYPTED = {
    "pkcs1": encrypted_pem(pkcs1([0, P * Q, E, 5, P, Q, 5, 5, 5])),
    "pkcs1, another modulus": encrypted_pem(pkcs1([0, N, E, 5, P, Q, 5, 5, 5])),
    "pkcs1, one large prime": encrypted_pem(pkcs1([0, N, E, 5, 3, P, 5, 5, 5])),
    "openssh": encrypted_openssh([P * Q, E, 5, 5, P, Q]),
    "openssh, another modulus": encrypted_openssh([N, E, 5, 5, P, Q]),
    "openssh, one large prime": encrypted_openssh([N, E, 5, 5, 3, P]),
    "headers, but no encryption": pem("RSA", pkcs1([0, N, E, 5, P, Q, 5, 5, 5]), "Comment: mine\n\n"),
}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the moduli of the private RSA keys that would be built. They are not built."""
    moduli: list[int] = []

    def build(n: int, *others: int) -> None:
        moduli.append(n)
        raise ValueError("not built")

    monkeypatch.setattr("remote.link.ssh.rsa_numbers._key", build)
    return moduli


def write_key(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    return path


def login(key: Path, person: Person) -> tuple[LoginStrategy, paramiko.PKey | None]:
    """Return the strategy of a login with this encrypted key, and the key that it decrypts."""
    hop = ResolvedHop("h", "127.0.0.1", 22, "u", identity_files=(str(key),), identities_only=True)
    strategy = LoginStrategy(hop, person)
    (candidate,) = strategy._candidates(None)
    return strategy, strategy._decrypt(None, candidate)


@pytest.mark.parametrize("name", ENCRYPTED)
def test_SE_an_encrypted_key_with_large_primes_is_refused_without_computing(
    name: str, tmp_path: Path, decoded: list[int]
) -> None:
    key = write_key(tmp_path / "key", ENCRYPTED[name])
    assert read_private_key(key).encrypted
    assert decrypt_private_key(key, PASSPHRASE.decode()).problem.startswith(TOO_LARGE)
    assert decoded == []


@pytest.mark.parametrize("name", ["pkcs1", "openssh"])
def test_SE_the_passphrase_of_a_key_with_large_primes_is_requested_once(
    name: str, tmp_path: Path, decoded: list[int]
) -> None:
    key, person = write_key(tmp_path / "key", ENCRYPTED[name]), Person(secrets=[PASSPHRASE.decode()] * 3)
    strategy, decrypted = login(key, person)
    assert decrypted is None and decoded == []
    assert len(person.questions) == 1
    (tried,) = strategy.tried
    assert tried.startswith(f"{key} ({TOO_LARGE} ")


def test_SE_a_wrong_passphrase_is_not_a_problem_of_the_file(tmp_path: Path, decoded: list[int]) -> None:
    for name in ("pkcs1", "openssh"):
        key, person = write_key(tmp_path / name, ENCRYPTED[name]), Person(secrets=["wrong"] * 3)
        strategy, decrypted = login(key, person)
        assert decrypted is None and decoded == []
        assert len(person.questions) > 1
        assert strategy.tried == [f"{key} (wrong passphrase)"]


@pytest.mark.parametrize("passphrase", ["", "open sesame"])
@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519"])
def test_SE_a_key_in_the_headers_of_another_key_is_not_read(kind: str, passphrase: str, tmp_path: Path) -> None:
    key, hidden, keygen = tmp_path / "key", tmp_path / "hidden", shutil.which("ssh-keygen")
    assert keygen
    for path in (key, hidden):
        words = [keygen, "-q", "-f", str(path), "-t", kind, "-a", "4", "-N", passphrase]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
    key.write_text(with_header(key, hidden))
    file = read_private_key(key)
    assert file.encrypted is bool(passphrase) and not file.problem
    loaded = decrypt_private_key(key, passphrase).key if passphrase else file.key
    own = read_public_key(key)
    assert own is not None and loaded is not None and loaded.asbytes() == own.asbytes()


def test_SE_a_large_key_in_the_headers_of_another_key_is_not_read(tmp_path: Path, decoded: list[int]) -> None:
    key, hidden = make_key(tmp_path / "key", kind="rsa"), tmp_path / "hidden"
    hidden.write_text(openssh(LARGE))
    read_private_key(key)
    key.write_text(with_header(key, hidden))
    assert not read_private_key(key).encrypted
    assert len(decoded) == 2 and decoded[0] == decoded[1], "the small key, without and with the header"


def with_header(key: Path, hidden: Path) -> str:
    """Return the file `key` with a header that contains the file `hidden`, for a decoder that ignores punctuation."""
    begin, *rest = key.read_text().splitlines()
    blob = base64.b64decode("".join(hidden.read_text().splitlines()[1:-1]))
    # The length is made a multiple of three, because padding would end the decoding.
    encoded = base64.b64encode(blob + bytes(-len(blob) % 3)).decode()
    return "\n".join([begin, f"{encoded[:4]}: {encoded[4:]}", "", *rest, ""])
