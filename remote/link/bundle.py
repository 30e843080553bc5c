"""The payload as one reproducible zip: the same sources always produce the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
def payload_bundle() -> Bundle:
    """Return remote/protocol, remote/policy and remote/payload as a zip with fixed timestamps and order.

    The zip is cached in the user's cache folder, because creating it takes longer than all other local work of a run
    that is already finished. The cache key is computed from the status of every source file. Without a writable cache,
    the zip is created each time.
    """
    paths = list(_sources())
    cached = cache_folder() / f"{_stamp(paths)}.pyz"
    with contextlib.suppress(OSError):
        data = cached.read_bytes()
        if data.endswith(_mark(data[:-32])):
            return _bundle(data[:-32])
    data = zip_sources(paths)
    with contextlib.suppress(OSError):
        _store(cached, data + _mark(data))
    return _bundle(data)


def cache_folder() -> Path:
    """Return the folder in which payload zips are cached."""
    root = os.environ.get("XDG_CACHE_HOME") or str(Path(os.environ.get("HOME") or "/nonexistent") / ".cache")
    return Path(root) / "halfstep/payload"


def zip_sources(paths: Iterable[Path]) -> bytes:
    """Return the zip, which depends only on the names and contents of the files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        _add(archive, "__main__.py", MAIN.encode())
        _add(archive, "remote/__init__.py", b"")
        for path in paths:
            _add(archive, f"remote/{path.relative_to(PACKAGE).as_posix()}", path.read_bytes())
    return buffer.getvalue()


def _sources() -> Iterable[Path]:
    for folder in FOLDERS:
        for where, folders, names in os.walk(PACKAGE / folder):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            yield from (Path(where, name) for name in sorted(names))


def _stamp(paths: Iterable[Path]) -> str:
    """Return a cache key that changes if any source file changes.

    Inode and ctime detect changes that restore the mtime.
    """
    stamp = hashlib.sha256(str(PACKAGE).encode("utf-8", "surrogateescape"))
    for path in paths:
        status = path.stat()
        facts = (str(path), status.st_ino, status.st_dev, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        stamp.update(repr(facts).encode("utf-8", "surrogateescape"))
    return stamp.hexdigest()[:32]


def _mark(data: bytes) -> bytes:
    return hashlib.sha256(b"halfstep payload\0" + data).digest()


def _bundle(data: bytes) -> Bundle:
    return Bundle(data, hashlib.sha256(data).hexdigest())


def _store(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
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
