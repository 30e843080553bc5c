"""Private keys with numbers of any size, in the formats of OpenSSH and of PKCS#1, with and without encryption."""

from __future__ import annotations

import base64
import hashlib
import struct
import textwrap

import bcrypt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

ALWAYS_ODD = 1
PASSPHRASE = b"in the README"
SALT = bytes(range(16))


def string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def odd(bits: int) -> int:
    """Return a number of this size, which is odd and has no small prime factors in most cases."""
    return (1 << bits) - (1 << (bits // 2)) + ALWAYS_ODD


def mpint(number: int) -> bytes:
    return string(number.to_bytes(number.bit_length() // 8 + 1, "big"))


def pem(form: str, blob: bytes, headers: str = "") -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(blob).decode(), 70))
    return f"-----BEGIN {form} PRIVATE KEY-----\n{headers}{body}\n-----END {form} PRIVATE KEY-----\n"


def rsa_public(bits: int) -> bytes:
    return string(b"ssh-rsa") + mpint(65537) + mpint(odd(bits))


def openssh(numbers: list[int], *, rounds: int = 0, kind: bytes = b"ssh-rsa", public: bytes = b"") -> str:
    """Return a private key in the format of OpenSSH. With `rounds`, the file says that it is encrypted."""
    private = bytes(8) + string(kind) + b"".join(map(mpint, numbers)) + string(b"")
    private += bytes(range(1, 1 + -len(private) % 8))
    protection = (
        string(b"aes256-ctr") + string(b"bcrypt") + string(string(bytes(16)) + struct.pack(">I", rounds))
        if rounds
        else string(b"none") + string(b"none") + string(b"")
    )
    opening = b"openssh-key-v1\0" + protection + struct.pack(">I", 1)
    return pem("OPENSSH", opening + string(public or rsa_public(2048)) + string(private))


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x80 | 3]) + size.to_bytes(3, "big")
    return bytes([tag]) + length + content


def pkcs1(numbers: list[int]) -> bytes:
    integers = (der(2, number.to_bytes(number.bit_length() // 8 + 1, "big")) for number in numbers)
    return der(0x30, b"".join(integers))


def encrypted_openssh(numbers: list[int]) -> str:
    """Return a private key that is encrypted with PASSPHRASE, in the format of OpenSSH."""
    private = bytes(8) + string(b"ssh-rsa") + b"".join(map(mpint, numbers)) + string(b"")
    private += bytes(range(1, 1 + -len(private) % 16))
    secret = bcrypt.kdf(PASSPHRASE, SALT, 48, 4, ignore_few_rounds=True)
    encryptor = Cipher(algorithms.AES(secret[:32]), modes.CTR(secret[32:])).encryptor()
    protection = string(b"aes256-ctr") + string(b"bcrypt") + string(string(SALT) + struct.pack(">I", 4))
    opening = b"openssh-key-v1\0" + protection + struct.pack(">I", 1)
    return pem("OPENSSH", opening + string(rsa_public(2048)) + string(encryptor.update(private)))


def encrypted_pem(plain: bytes) -> str:
    """Return the block `BEGIN RSA PRIVATE KEY` with this content, which is encrypted with PASSPHRASE."""
    secret = hashlib.md5(PASSPHRASE + SALT[:8]).digest()
    padding = 16 - len(plain) % 16
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(SALT)).encryptor()
    headers = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{SALT.hex().upper()}\n\n"
    return pem("RSA", encryptor.update(plain + bytes([padding]) * padding), headers)
