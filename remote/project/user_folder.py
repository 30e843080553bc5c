"""The user's own configuration folder: known hosts, confirmations, and the key that signs records in projects."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import pwd
import secrets
from collections.abc import Mapping
from pathlib import Path

from remote.project.paths import is_folder
from remote.protocol.regular import open_regular

LARGEST = 16 * 2**20
KEY = "note_key"
KEY_BYTES = 32
LONGEST_KEY = 4096
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


def home(environment: Mapping[str, str]) -> Path:
    """Return the home folder: HOME if it is set, otherwise the home folder of the account."""
    return Path(environment.get("HOME") or account_home() or "/")


def account_home() -> str:
    """Return the home folder of the account, or "" if the user id has no account, as in some containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def user_file(name: str, environment: Mapping[str, str] = os.environ) -> Path:
    """Return the path of a file in halfstep's folder of the user's configuration."""
    config = environment.get("XDG_CONFIG_HOME") or str(home(environment) / ".config")
    return Path(config) / "halfstep" / name


def create_private(folder: Path) -> None:
    """Create a folder, and the missing folders above it, for the user only, whatever the umask is. Raises OSError."""
    if not is_folder(folder.parent):
        create_private(folder.parent)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not is_folder(folder):
            raise


def sign(data: bytes) -> str:
    """Return the HMAC of the data with the user's key, in hex. Raises OSError if no key can be read or created."""
    return hmac.new(_own_key(create=True), data, hashlib.sha256).hexdigest()


def is_signed(data: bytes, signature: str) -> bool:
    """Return True if this user signed the data. Return False if the user's key cannot be read."""
    try:
        key = _own_key(create=False)
    except OSError:
        return False
    expected = hmac.new(key, data, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogateescape"))


def _own_key(*, create: bool) -> bytes:
    """Return the key in the user's configuration folder. Raises OSError if it can be neither read nor created."""
    path = user_file(KEY)
    with contextlib.suppress(FileNotFoundError):
        if len(key := _read_private(path)) >= KEY_BYTES:
            return key
    if not create:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    create_private(path.parent)
    fresh = path.with_name(f".{KEY}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with os.fdopen(os.open(fresh, NEW_FILE, 0o600), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            path.hardlink_to(fresh)  # atomic: of two processes, the first creates the key
        except FileExistsError:
            if len(_read_private(path)) < KEY_BYTES:  # an incomplete key could be guessed
                fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    return _read_private(path)


def _read_private(path: Path) -> bytes:
    """Return the content of a short file, from which the permissions of other users are removed. Raises OSError."""
    with open_regular(path) as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & 0o077:
            with contextlib.suppress(OSError):
                os.fchmod(file.fileno(), 0o600)
        return file.read(LONGEST_KEY)
