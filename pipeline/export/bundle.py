"""The files that a task uploads: the project as an archive, and this version of halfstep as a wheel."""

from __future__ import annotations

import base64
import errno
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import Distribution, distribution
from pathlib import Path, PurePosixPath

from pipeline.config.shipped import shipped_configs, shipped_data, shipped_docs
from remote.errors import SyncRefused
from remote.project.data import DataScan
from remote.project.included_files import shown
from remote.project.records_folder import opened_folder
from remote.project.scan import Scan
from remote.protocol.parts import replacing

TOP = Path(__file__).resolve().parents[2]
PACKAGES = ("halfstep_cli", "pipeline", "fixers", "remote")
SHIPPED = "pipeline/shipped"
FIXED_TIME = (1980, 1, 1, 0, 0, 0)
METADATA = ("METADATA", "entry_points.txt")
WHEEL = "Wheel-Version: 1.0\nGenerator: halfstep\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def pack_project(scan: Scan, extra: Mapping[str, bytes], *, data: str) -> bytes:
    """Return a .tar.gz of the scanned files and links, and of `extra` files. Equal contents give equal bytes.

    Files in the project's data folder `data` are not included, because they are uploaded separately.
    """
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path, row in sorted(scan.manifest.rows.items()):
            if data and PurePosixPath(path).is_relative_to(data):
                continue
            info = tarfile.TarInfo(path)
            info.mode = row.mode
            if row.link:
                info.type, info.linkname = tarfile.SYMTYPE, row.link
                archive.addfile(info)
            else:
                _add(archive, info, scan.read(path))
        for path, contents in sorted(extra.items()):
            info = tarfile.TarInfo(path)
            info.mode = 0o644
            _add(archive, info, contents)
    return buffer.getvalue()


def require_local_room(file: Path, data_bytes: int) -> None:
    """Raise OSError (ENOSPC) if the file system of `file` has no room for this much data."""
    if shutil.disk_usage(file.parent).free < data_bytes:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))


def write_data(scan: DataScan, file: Path) -> None:
    """Write a .tar of the scanned data. Raises SyncRefused if a file has another content than when it was scanned.

    An engine gets this archive instead of the folder. It would read git settings and ignore files of the folder, put
    its names into shell commands, and upload files that `scan_data` leaves out.
    """
    with (
        opened_folder(file.parent) as folder,
        replacing(file.name, folder) as out,
        tarfile.open(fileobj=out, mode="w") as archive,
    ):
        for name, (digest, size) in sorted(scan.files.items()):
            info = tarfile.TarInfo(name)
            info.size = size
            if _add_file(archive, info, scan) != digest:
                message = f"{name!r} changed while it was being packed"
                raise SyncRefused(message, where=shown(name), hint="run the command again")


def _add_file(archive: tarfile.TarFile, info: tarfile.TarInfo, scan: DataScan) -> str:
    """Add a file of `info.size` bytes, and return the SHA-256 digest of the bytes."""
    try:
        file = scan.opened(info.name)
    except OSError as error:
        raise SyncRefused(f"{info.name!r} cannot be read: {error.strerror}", where=shown(info.name)) from None
    with file:
        contents = _Digested(file)
        archive.addfile(info, contents)
        return contents.digest.hexdigest()


class _Digested(io.RawIOBase):
    """Reads a file and computes the SHA-256 digest of what was read. Missing bytes are zeros."""

    def __init__(self, file: io.FileIO) -> None:
        self.file, self.digest = file, hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size) or b"\0" * size
        self.digest.update(data)
        return data


def _add(archive: tarfile.TarFile, info: tarfile.TarInfo, data: bytes) -> None:
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))


def wheel_name(distribution: Distribution) -> str:
    """Return the file name of a pure Python wheel of the distribution."""
    return f"{distribution.name}-{distribution.version}-py3-none-any.whl"


@lru_cache(maxsize=2)
def own_wheel(*, data: bool) -> bytes:
    """Return the wheel of halfstep, which is packed once per process."""
    return pack_wheel(distribution("halfstep"), data=data)


def pack_wheel(distribution: Distribution, *, data: bool) -> bytes:
    """Return a wheel of the halfstep that is running, whether it is installed or runs from a checkout.

    With `data` False, the shipped data set, which takes two thirds of the wheel's size, is not included. The layout
    follows the binary distribution format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
    """
    info = f"{distribution.name}-{distribution.version}.dist-info"
    files = dict(_own_files(data))
    files |= {f"{info}/{name}": (distribution.read_text(name) or "").encode() for name in METADATA}
    files[f"{info}/WHEEL"] = WHEEL.encode()
    record = "".join(f"{name},sha256={_urlsafe_digest(contents)},{len(contents)}\n" for name, contents in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, contents in files.items():
            entry = zipfile.ZipInfo(name, FIXED_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, contents)
    return buffer.getvalue()


def _own_files(with_data: bool) -> Iterator[tuple[str, bytes]]:
    for package in PACKAGES:
        for name, data in _files_under(TOP / package, package):
            if not name.startswith(f"{SHIPPED}/"):
                yield name, data
    yield from _files_under(shipped_configs(), f"{SHIPPED}/configs")
    yield from _files_under(shipped_docs(), f"{SHIPPED}/docs")
    if with_data and (speech := shipped_data("tiny-speech")) is not None:
        yield from _files_under(speech, f"{SHIPPED}/tiny-speech")


def _files_under(folder: Path, name: str) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()


def _urlsafe_digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
