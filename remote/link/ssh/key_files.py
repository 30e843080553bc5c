"""Read the files of login keys. Files of a project may be built to make their reader compute for hours."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import struct
from functools import lru_cache
from pathlib import Path

import paramiko

from remote.link.ssh.key_sizes import (
    MAX_EC_BLOB,
    MAX_OTHER_BLOB,
    RSA,
    UnusableNumber,
    openssh_numbers,
    parse_openssh_key,
    pkcs1_numbers,
    require_blob,
)
from remote.link.ssh.rsa_numbers import key_of_openssh, key_of_pkcs1
from remote.protocol.dataclass import dataclass
from remote.protocol.regular import read_regular
from remote.protocol.text import file_lines

LARGEST_PRIVATE = 64 * 1024
LARGEST_PUBLIC = 16 * 1024
BEGIN = re.compile(r"-----BEGIN (RSA|EC|OPENSSH) PRIVATE KEY-----")
END = re.compile(r"-----END (RSA|EC|OPENSSH) PRIVATE KEY-----")


class JudgedRsaKey(paramiko.RSAKey):  # type: ignore[misc]
    """An RSA key whose numbers are judged after a file was decrypted. Its primes are not tested."""

    def _decode_key(self, data: tuple[int, bytes]) -> None:
        form, plain = data
        if form == self._PRIVATE_KEY_FORMAT_ORIGINAL:
            self.key = key_of_pkcs1(pkcs1_numbers(plain))
        else:
            self.key = key_of_openssh(openssh_numbers(plain))


CLASSES = {
    "RSA": JudgedRsaKey,
    "EC": paramiko.ECDSAKey,
    # The types in a file with `BEGIN OPENSSH PRIVATE KEY`.
    RSA: JudgedRsaKey,
    "ssh-ed25519": paramiko.Ed25519Key,
    "ecdsa-sha2-nistp256": paramiko.ECDSAKey,
    "ecdsa-sha2-nistp384": paramiko.ECDSAKey,
    "ecdsa-sha2-nistp521": paramiko.ECDSAKey,
}
MALFORMED = (
    paramiko.SSHException,
    paramiko.UnknownKeyType,
    # paramiko checks neither lengths nor numbers of what it reads.
    ValueError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    TypeError,
    struct.error,
)


@dataclass(frozen=True)
class PrivateKeyFile:
    """A private key file: its key, or None if the file is encrypted; `problem` is set if the file is not usable.

    `encrypted` is True if the key was not decrypted.
    """

    key: paramiko.PKey | None = None
    encrypted: bool = False
    problem: str = ""


@dataclass(frozen=True)
class _KeyText:
    """A private key in canonical form, so that paramiko reads exactly the blob that was judged."""

    text: str
    key_class: type[paramiko.PKey]
    encrypted: bool


def read_private_key(path: Path) -> PrivateKeyFile:
    """Return the private key of a file, with the certificate in the file PATH-cert.pub, if there is one.

    A file of a usable size is parsed once per process.
    """
    try:
        certificate = _read_certificate(path)
        return _load(read_regular(path, LARGEST_PRIVATE, follow=True), certificate)
    except OSError as error:
        return PrivateKeyFile(problem=f"not a private key: {error.strerror}")


def decrypt_private_key(path: Path, passphrase: str) -> PrivateKeyFile:
    """Return the key of an encrypted file. It has neither a key nor a problem if the passphrase is probably wrong."""
    try:
        text = _parse(read_regular(path, LARGEST_PRIVATE, follow=True))
        return PrivateKeyFile(_with_certificate(_key(text, passphrase), _read_certificate(path)))
    except UnusableNumber as error:
        return PrivateKeyFile(problem=f"not a private key of a usable size: {error}")
    except (OSError, *MALFORMED):
        return PrivateKeyFile(encrypted=True)


def read_public_key(path: Path) -> paramiko.PKey | None:
    """Return the public key in the file PATH.pub, or None if there is no such file of a usable size."""
    with contextlib.suppress(OSError):
        return _load_public(read_regular(f"{path}.pub", LARGEST_PUBLIC, follow=True))
    return None


@lru_cache(maxsize=16)
def _load_public(data: bytes) -> paramiko.PKey | None:
    with contextlib.suppress(*MALFORMED):
        blob = paramiko.PublicBlob.from_string(data.decode("utf-8", "replace").strip())
        return paramiko.PKey.from_type_string(blob.key_type, blob.key_blob)
    return None


@lru_cache(maxsize=16)
def _load(data: bytes, certificate: bytes) -> PrivateKeyFile:
    try:
        text = _parse(data)
    except ValueError as error:
        return PrivateKeyFile(problem=f"not a private key of a known type and usable size: {error}")
    if text.encrypted:
        return PrivateKeyFile(encrypted=True)
    try:
        return PrivateKeyFile(_with_certificate(_key(text, None), certificate))
    except MALFORMED as error:
        return PrivateKeyFile(problem=f"not a private key of a known type: {type(error).__name__}")


def _parse(data: bytes) -> _KeyText:
    """Return the first private key of a file. Raises ValueError if there is none, or if its size is not usable."""
    lines = iter([line.strip() for line in file_lines(data.decode("utf-8", "replace"))])
    form = next((match.group(1) for line in lines if (match := BEGIN.fullmatch(line))), "")
    if not form:
        raise ValueError("no line -----BEGIN (RSA|EC|OPENSSH) PRIVATE KEY-----")
    body: list[str] = []
    headers: list[str] = []
    for line in lines:
        if END.fullmatch(line):
            break
        (headers if ": " in line and not body else body).append(line)
    blob = base64.b64decode("".join(body))
    encrypted = bool(headers)
    if form == "OPENSSH":
        key = parse_openssh_key(blob)
        encrypted, key_type = key.encrypted, key.key_type
        # paramiko would decode the headers as a part of the key.
        headers = []
    else:
        key_type = form
        _require_usable_pem(form, blob, encrypted)
    if key_type not in CLASSES:
        raise ValueError("keys of its type are not supported")
    encoded = base64.encodebytes(blob).decode("ascii")
    above = "".join(f"{header}\n" for header in headers) + ("\n" if headers else "")
    canonical = f"-----BEGIN {form} PRIVATE KEY-----\n{above}{encoded}-----END {form} PRIVATE KEY-----\n"
    return _KeyText(canonical, CLASSES[key_type], encrypted)


def _require_usable_pem(form: str, blob: bytes, encrypted: bool) -> None:
    if form == "EC":
        require_blob(blob, MAX_EC_BLOB)
    elif encrypted:
        require_blob(blob, MAX_OTHER_BLOB)
    else:
        pkcs1_numbers(blob)


def _key(text: _KeyText, passphrase: str | None) -> paramiko.PKey:
    password = None if passphrase is None else passphrase.encode()
    return text.key_class.from_private_key(io.StringIO(text.text), password=password)


def _read_certificate(path: Path) -> bytes:
    try:
        return read_regular(f"{path}-cert.pub", LARGEST_PUBLIC, follow=True)
    except FileNotFoundError:
        return b""


def _with_certificate(key: paramiko.PKey, certificate: bytes) -> paramiko.PKey:
    """Return the key, which presents the certificate to servers. Raises ValueError if it is of another type."""
    if certificate:
        blob = paramiko.PublicBlob.from_string(certificate.decode("utf-8", "replace").strip())
        key.load_certificate(paramiko.Message(blob.key_blob))
    return key
