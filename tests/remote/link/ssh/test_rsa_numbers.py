"""SE: private RSA keys are built at once, whatever their primes are, and only if their numbers fit together."""

from __future__ import annotations

import time
from math import lcm
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from remote.link.ssh.key_files import decrypt_private_key, read_private_key
from remote.link.ssh.rsa_numbers import key_of_openssh, key_of_pkcs1
from tests.remote.link.ssh.key_forms import PASSPHRASE, encrypted_openssh, encrypted_pem, openssh, pem, pkcs1

SOON_S = 3.0
E = 65537
# Primes of the form k*2^n+1, which OpenSSL tests slowly.
P, Q = 9 * 2**7967 + 1, 9 * 2**6937 + 1


def numbers(p: int, q: int, **changed: int) -> list[int]:
    """Return the numbers of a PKCS#1 key."""
    d = pow(E, -1, lcm(p - 1, q - 1))
    key = {"version": 0, "n": p * q, "e": E, "d": d, "p": p, "q": q, "dmp1": d % (p - 1), "dmq1": d % (q - 1)}
    return [*({**key, "iqmp": pow(q, -1, p) if p != q else 1} | changed).values()]


WITH_ONE = [0, 77, E, 1, 1, 77, 0, 1, 0]
NEGATIVE = [*numbers(7, 11)[:4], -7, -11, 5, 3, 2]


def in_openssh(values: list[int]) -> list[int]:
    _, n, e, d, p, q, _, _, iqmp = values
    return [n, e, d, iqmp, p, q]


FORMS = {
    "pkcs1": lambda values: pem("RSA", pkcs1(values)),
    "openssh": lambda values: openssh(in_openssh(values)),
    "pkcs1, encrypted": lambda values: encrypted_pem(pkcs1(values)),
    "openssh, encrypted": lambda values: encrypted_openssh(in_openssh(values)),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("q", "usable"), [(Q, True), (P, False)], ids=["two primes", "one prime twice"])
def test_SE_a_key_with_primes_of_eight_thousand_bits_is_read_at_once(
    form: str, q: int, usable: bool, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text(FORMS[form](numbers(P, q)))
    start = time.process_time()
    read = decrypt_private_key(path, PASSPHRASE.decode()) if "encrypted" in form else read_private_key(path)
    assert (read.key is not None and read.key.can_sign()) is usable
    assert usable or read.problem or read.encrypted
    assert read.key is None or (read.key.get_bits() == (P * q).bit_length() and read.key.sign_ssh_data(b"text"))
    assert time.process_time() - start < SOON_S


@pytest.fixture(scope="module")
def small() -> list[int]:
    made = rsa.generate_private_key(65537, 1024).private_numbers()
    return [0, made.p * made.q, E, made.d, made.p, made.q, made.dmp1, made.dmq1, made.iqmp]


@pytest.mark.parametrize("position", range(9))
@pytest.mark.parametrize("change", [1, 2, -(2**1100), 2**1100])
def test_SE_a_number_that_does_not_fit_the_others_is_refused(small: list[int], position: int, change: int) -> None:
    assert key_of_pkcs1(small).private_numbers().d == small[3]
    small = [*small[:position], small[position] + change, *small[position + 1 :]]
    with pytest.raises(ValueError, match="key"):
        key_of_pkcs1(small)
    if position in (1, 2, 3, 4, 5, 8):
        with pytest.raises(ValueError, match="RSA key"):
            key_of_openssh(in_openssh(small))


@pytest.mark.parametrize("values", [WITH_ONE, NEGATIVE, numbers(13, 13)])
def test_SE_numbers_without_two_primes_are_refused(values: list[int]) -> None:
    with pytest.raises(ValueError, match="RSA key"):
        key_of_openssh(in_openssh(values))


SHORT = {
    "4 bits": (3, 5),
    "511 bits": (3 * 2**189 + 1, 9 * 2**317 + 1),
    "1020 bits": (3 * 2**189 + 1, 9 * 2**826 + 1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("primes", SHORT.values(), ids=SHORT)
def test_SE_a_key_that_is_too_short_for_a_signature_is_refused(
    form: str, primes: tuple[int, int], tmp_path: Path
) -> None:
    path = tmp_path / "key"
    values = numbers(*primes, **({"e": 3, "d": 3} if primes == (3, 5) else {}))
    path.write_text(FORMS[form](values))
    read = decrypt_private_key(path, PASSPHRASE.decode()) if "encrypted" in form else read_private_key(path)
    assert read.key is None and (read.problem or read.encrypted)


def test_SE_a_key_with_more_primes_is_refused(small: list[int]) -> None:
    for values in ([1, *small[1:]], [*small, 5, 5, 5], small[:8]):
        with pytest.raises(ValueError, match="two primes"):
            key_of_pkcs1(values)
