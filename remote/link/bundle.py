"""The payload as one reproducible zip: the same sources always produce the same bytes."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import stat
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from remote.project.user_folder import create_private
from remote.protocol.byte_code import compile_module
from remote.protocol.dataclass import dataclass
from remote.protocol.regular import open_regular

PACKAGE = Path(__file__).parent.parent
FOLDERS = ("protocol", "policy", "payload")
EPOCH = (1980, 1, 1, 0, 0, 0)
MAIN = "import sys\nfrom remote.payload.__main__ import main\nsys.exit(main())\n"
MAX_CACHED_ZIPS = 8


@dataclass(frozen=True)
class Bundle:
    """A zip that `python3 -I -S` runs, and its SHA-256."""

    data: bytes
    sha256: str


@cache
def payload_bundle(*, byte_code: bool = False) -> Bundle:
    """Return remote/protocol, remote/policy and remote/payload as a zip with fixed timestamps and order.

    With `byte_code`, the zip also contains each module as compiled by this Python, so that the processes of a payload
    on this machine compile nothing. Another version of Python uses the sources.

    The zip is cached in the user's cache folder, because creating it takes longer than all other local work of a run
    that is already finished. The cache key is computed from the status of every source file. Without a cache that only
    the user can write to, the zip is created each time.
    """
    paths = list(_sources())
    version = sys.implementation.cache_tag if byte_code else ""
    cached = cache_folder() / f"{_stamp(paths, version)}.pyz"
    with contextlib.suppress(OSError):
        data = _read_private(cached)
        if data.endswith(_mark(data[:-32])):
            return _bundle(data[:-32])
    data = zip_sources(paths, byte_code=byte_code)
    with contextlib.suppress(OSError):
        _store(cached, data + _mark(data))
    return _bundle(data)


def cache_folder() -> Path:
    """Return the folder in which payload zips are cached."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ.get("HOME") or "/nonexistent") / ".cache")
    return Path(root) / "halfstep/payload"


def zip_sources(paths: Iterable[Path], *, byte_code: bool = False) -> bytes:
    """Return the zip, which depends only on the names and contents of the files, and on this Python."""
    files = {"__main__.py": MAIN.encode(), "remote/__init__.py": b""}
    files |= {f"remote/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes() for path in paths}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data in files.items():
            _add(archive, name, data)
            if byte_code and name.endswith(".py"):
                _add(archive, f"{name}c", compile_module(data, name))
    return buffer.getvalue()


def _sources() -> Iterable[Path]:
    for folder in FOLDERS:
        for where, folders, names in os.walk(PACKAGE / folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            yield from (Path(where, name) for name in sorted(names))


def _stamp(paths: Iterable[Path], version: str) -> str:
    """Return a cache key that changes if any source file changes. `version` is the Python of the byte code, or "".

    Inode and ctime detect changes that restore the mtime.
    """
    stamp = hashlib.sha256(f"{PACKAGE}{version}".encode("utf-8", "surrogateescape"))
    for path in paths:
        status = path.stat()
        facts = (str(path), status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        stamp.update(repr(facts).encode("utf-8", "surrogateescape"))
    return stamp.hexdigest()[:32]


def _mark(data: bytes) -> bytes:
    return hashlib.sha256(b"halfstep payload\0" + data).digest()


def _bundle(data: bytes) -> Bundle:
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _read_private(path: Path) -> bytes:
    """Return the content of a cached file. Raises OSError if another user may have written it."""
    _require_private(path.parent)
    with open_regular(path) as file:
        status = os.fstat(file.fileno())
        if not _is_private(status) or status.st_nlink != 1:
            raise PermissionError(errno.EPERM, "writable by other users", str(path))
        return file.read()


def _require_private(folder: Path) -> None:
    """Raise OSError if another user may replace files of the cache: in it, or by renaming one of its folders."""
    own = (folder, folder.parent)
    for status in (*(one.lstat() for one in own), folder.parent.parent.stat()):
        if not stat.S_ISDIR(status.st_mode) or not _is_private(status):
            raise PermissionError(errno.EPERM, "writable by other users", str(folder))


def _is_private(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_private(folder: Path) -> None:
    """Remove the access of others, which older versions granted if the umask allowed it. Raises OSError."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, 0o700)
    finally:
        os.close(fd)


def _store(path: Path, data: bytes) -> None:
    create_private(path.parent)
    _make_private(path.parent.parent)
    _make_private(path.parent)
    _require_private(path.parent)
    fd, part = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(fd, "wb") as file:
        file.write(data)
    Path(part).replace(path)
    older = sorted(path.parent.glob("*.pyz"), key=lambda other: other.stat().st_mtime)
    for other in older[:-MAX_CACHED_ZIPS]:
        other.unlink(missing_ok=True)


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    info.create_system = 3
    archive.writestr(info, data)
