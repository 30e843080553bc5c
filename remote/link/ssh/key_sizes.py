"""Judge the sizes in a key before paramiko computes with them.

Operations with numbers of a million bits take hours, and paramiko converts the numbers of a public key in quadratic
time. The rounds of bcrypt, which protect an encrypted key, have no upper limit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from remote.protocol.dataclass import dataclass

MAX_BITS = 16_384
"""The largest RSA key that OpenSSL and OpenSSH use for signatures."""
MAX_NUMBER = MAX_BITS // 8 + 1
MAX_PRIME = MAX_BITS // 16 + 1
MAX_OTHER_BLOB = 12 * 1024
"""An encrypted RSA key of 16,384 bits has less than 10 KiB, and keys of other types have less than 1 KiB."""
MAX_EC_BLOB = 1024
MAX_ROUNDS = 1000
"""Takes about 8 s. ssh-keygen uses 24 rounds, or 16 in older versions."""
MAGIC = b"openssh-key-v1\0"
RSA = "ssh-rsa"
RSA_NUMBERS = 6
PRIMES = (4, 5)
"""The positions of p and q, both in `n e d iqmp p q` (OpenSSH) and in `version n e d p q ...` (PKCS#1)."""
INTEGER, SEQUENCE = 0x02, 0x30


class UnusableNumber(ValueError):
    """A number of a key is larger than in any key that OpenSSH uses."""


@dataclass(frozen=True)
class OpenSshKey:
    """A private key in the format of OpenSSH: the type in its public part, and whether it is encrypted."""

    key_type: str
    encrypted: bool


def parse_openssh_key(blob: bytes) -> OpenSshKey:
    """Return the type of a private key in the format of OpenSSH.

    Raises ValueError if the blob is malformed, or if loading the key would take more than a few seconds.
    """
    if not blob.startswith(MAGIC):
        raise ValueError("no key in the format of OpenSSH")
    cipher, rest = _string(blob[len(MAGIC) :])
    kdf, rest = _string(rest)
    options, rest = _string(rest)
    count, rest = _integer(rest)
    public, rest = _string(rest)
    private, _ = _string(rest)
    key_type, _ = _string(public)
    if count != 1:
        raise ValueError(f"{count} keys")
    key = OpenSshKey(key_type.decode("ascii", "replace"), encrypted=(cipher, kdf) != (b"none", b"none"))
    if key.encrypted:
        _require_few_rounds(options)
    if key.encrypted or key.key_type != RSA:
        require_blob(blob, MAX_OTHER_BLOB)
    else:
        # The private part begins with two equal integers and the type.
        _, numbers = _string(private[8:])
        openssh_numbers(numbers)
    return key


def pkcs1_numbers(der: bytes) -> list[int]:
    """Return the integers of a sequence, as in `BEGIN RSA PRIVATE KEY`.

    Raises ValueError if the blob is malformed, or the size of a number is not usable.
    """
    tag, content, _ = _element(der)
    if tag != SEQUENCE:
        raise ValueError("no RSA key in the format of PKCS#1")
    return _numbers(_integers(content))


def openssh_numbers(data: bytes) -> list[int]:
    """Return the numbers `n e d iqmp p q` at the start of the data. Raises ValueError as `pkcs1_numbers`."""
    return _numbers(_strings(data, RSA_NUMBERS))


def require_blob(blob: bytes, limit: int) -> None:
    """Raise ValueError if a blob, whose numbers are not checked one by one, has more than `limit` bytes."""
    if len(blob) > limit:
        raise ValueError(f"{len(blob)} bytes, expected at most {limit}")


def _numbers(numbers: Iterator[bytes]) -> list[int]:
    found: list[int] = []
    for position, number in enumerate(numbers):
        limit = MAX_PRIME if position in PRIMES else MAX_NUMBER
        if len(number) > limit:
            raise UnusableNumber(f"a number of {len(number) * 8} bits, expected at most {limit * 8 - 8}")
        found.append(int.from_bytes(number, "big", signed=True))
    return found


def _require_few_rounds(options: bytes) -> None:
    _, rest = _string(options)
    rounds, _ = _integer(rest)
    if rounds > MAX_ROUNDS:
        raise ValueError(f"{rounds} rounds of bcrypt, expected at most {MAX_ROUNDS}")


def _integer(data: bytes) -> tuple[int, bytes]:
    if len(data) < 4:
        raise ValueError("truncated key")
    return struct.unpack(">I", data[:4])[0], data[4:]


def _string(data: bytes) -> tuple[bytes, bytes]:
    """Return the string at the start of the data (RFC 4251, 5), and the rest."""
    size, rest = _integer(data)
    if size > len(rest):
        raise ValueError("truncated key")
    return rest[:size], rest[size:]


def _strings(data: bytes, count: int) -> Iterator[bytes]:
    for _ in range(count):
        value, data = _string(data)
        yield value


def _integers(data: bytes) -> Iterator[bytes]:
    while data:
        tag, content, data = _element(data)
        if tag != INTEGER:
            raise ValueError(f"an element with the tag {tag:#x}, expected only integers")
        yield content


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Return tag and content of the first DER element (X.690), and the bytes after it."""
    if len(data) < 2:
        raise ValueError("truncated key")
    size, start = data[1], 2
    if size & 0x80:
        # The other bits are the length of the length. 0 would be an indefinite length, which only BER permits.
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big") if start > 2 else len(data)
    if start + size > len(data):
        raise ValueError("truncated key")
    return data[0], data[start : start + size], data[start + size :]
