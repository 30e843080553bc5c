"""SHA-256 digests of local files, cached in `.halfstep/` by size, times and inode."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from remote.errors import BadUsage, SyncRefused
from remote.project.real_paths import real_path_of
from remote.project.records_folder import find_link, opened_folder
from remote.project.secrets import SCANNED_BYTES, secret_by_content
from remote.protocol.parts import replacing
from remote.protocol.regular import open_regular, read_regular

VERSION = 4
"""The version of the cache's format and of the rules for secrets, whose results are cached too."""
MEMORY = "scan.json"
CHUNK = 2**20
MAX_JSON = 64 * 2**20
MAX_VALUES = 2 * 10**6
"""The maximum number of values in a JSON file of a project's records. The curves of a report have up to 1.2 million
values, and the digests of 250,000 files have as many values as this limit.
"""
DEEPEST = 50
TRIES = 3
SETTLED_NS = 100_000_000
COARSE_NS = 2_000_000_000

StatFields = tuple[int, int, int, int]
FileIdentity = tuple[int, StatFields]
"""The device and the stat fields of a file that was judged."""


class CachedDigest(NamedTuple):
    """A file's digest, why the file must not be sent (or ""), and the stat fields of the file when it was read."""

    look: StatFields
    digest: str
    secret: str = ""


class StillChanging(Exception):
    """A file changed during every attempt to read it."""


def stat_fields(status: os.stat_result) -> StatFields:
    """Return size, mtime, ctime and inode. If the file changes, at least one of these fields changes."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def identity_of(status: os.stat_result) -> FileIdentity:
    """Return what `open_judged` compares. The cache has no device number, because a reboot may change it."""
    return status.st_dev, stat_fields(status)


def is_same_file(judged: FileIdentity, status: os.stat_result) -> bool:
    """Return True if both are of one file, whether its content has changed or not."""
    return (judged[0], judged[1][3]) == (status.st_dev, status.st_ino)


def open_judged(path: Path | str, judged: FileIdentity, *, follow: bool = False) -> FileIO:
    """Open the file that was judged. Raises OSError if the path now leads to another file, or if the file has changed.

    Whoever can write to one of its folders could replace the file with a link to a private file of the user.
    """
    file = open_regular(path, follow=follow)
    if identity_of(os.fstat(file.fileno())) == judged:
        return file
    file.close()
    raise OSError(errno.ESTALE, "changed after it was scanned", os.fspath(path))


def read_judged(opened: Callable[[], FileIO], name: str, digest: str) -> bytes:
    """Return the content of a file that was judged. Raises SyncRefused if its content is another one now."""
    try:
        with opened() as file:
            data = file.readall() or b""
    except OSError as error:
        raise SyncRefused(f"{name!r} cannot be read: {error.strerror}", hint="run the command again") from None
    if hashlib.sha256(data).hexdigest() == digest:
        return data
    raise SyncRefused(f"{name!r} changed while it was being read", hint="run the command again")


def read_scanned(path: str, name: str, digest: str, size: int) -> bytes:
    """Return the content of a file that was scanned, which had this digest and size.

    Raises SyncRefused for another content. Neither a link nor more than `size` bytes are read.
    """
    try:
        data = read_regular(path, size)
    except OSError as error:
        if error.errno not in (errno.EFBIG, errno.ELOOP):
            raise SyncRefused(f"{name!r} cannot be read: {error.strerror}", hint="run the command again") from None
        data = b""
    if len(data) != size or hashlib.sha256(data).hexdigest() != digest:
        raise SyncRefused(f"{name!r} changed after it was scanned", hint="run the command again")
    return data


def read_digest_cache(folder: Path, name: str = MEMORY) -> dict[str, CachedDigest]:
    """Read the cache. Return {} if the cache is damaged, has another version, or is reached through a link."""
    if find_link(folder) is not None:
        return {}
    try:
        data = read_json(folder / name, is_cache=True)
        if data["version"] != VERSION:
            return {}
        return {
            path: CachedDigest((a, b, c, d), digest, secret)
            for path, (a, b, c, d, digest, secret) in data["rows"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_digest_cache(folder: Path, known: Mapping[str, CachedDigest], name: str = MEMORY) -> None:
    """Write the cache, except for files that changed just now: another change could leave their mtime unchanged."""
    now = time.time_ns()
    rows = {path: [*one.look, one.digest, one.secret] for path, one in known.items() if _settled(one.look, now)}
    write_state(folder, name, {"version": VERSION, "rows": rows})


def _settled(look: StatFields, now: int) -> bool:
    newest = max(look[1], look[2])
    coarse = look[2] % 1_000_000_000 == 0
    return newest + (COARSE_NS if coarse else SETTLED_NS) < now


def write_state(folder: Path, name: str, value: Any) -> None:
    """Write `value` as JSON to `folder`/`name`, atomically.

    Writes nothing if the disk is full, or if a part of the path in `.halfstep` is a link, which a cloned project may
    contain.
    """
    if find_link(folder) is not None:
        return
    data = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")
    try:
        with opened_folder(folder) as opened, replacing(name, opened) as file:
            file.write(data)
    except (BadUsage, OSError):
        return


def digest_file(
    path: Path | str,
    name: str,
    *,
    follow: bool = False,
    judge_path: Callable[[str], str] = lambda _: "",
    known: CachedDigest | None = None,
) -> tuple[CachedDigest, FileIdentity]:
    """Return the digest and the identity of a file that did not change while it was read.

    `judge_path` returns why a file with this real path must not be sent, or "", or raises an error. The file is not
    read if it has the stat fields of `known`. Raises StillChanging, OSError.
    """
    for _ in range(TRIES):
        with open_regular(path, follow=follow) as file:
            status = os.fstat(file.fileno())
            before, why = stat_fields(status), judge_path(real_path_of(file))
            if known is not None and known.look == before:
                return known._replace(secret=why or known.secret), identity_of(status)
            first = file.read(min(CHUNK, status.st_size))
            whole, seen = hashlib.sha256(first), len(first)
            while seen < status.st_size and (chunk := file.read(CHUNK)):
                whole.update(chunk)
                seen += len(chunk)
            if seen == status.st_size and stat_fields(os.fstat(file.fileno())) == before:
                why = why or secret_by_content(name, first[:SCANNED_BYTES], seen)
                return CachedDigest(before, whole.hexdigest(), why), identity_of(status)
    raise StillChanging(name)


def read_json(path: Path | str, *, is_cache: bool = False) -> Any:
    """Return the value in a JSON file of a project's records.

    Raises OSError like `read_regular`, ValueError like `parse_record`.
    """
    try:
        return parse_record(read_regular(path, MAX_JSON), is_cache=is_cache)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def parse_record(data: bytes, *, is_cache: bool = False) -> Any:
    """Return the JSON value.

    Raises ValueError if `data` is not JSON, has more than MAX_VALUES values or is nested too deeply. If `is_cache` is
    True, the depth is not checked, since the check is slow for a large file. The caller must then not traverse the
    value recursively.
    """
    if count_values(data) > MAX_VALUES:
        raise ValueError(f"more than {MAX_VALUES} values")
    try:
        value = json.loads(data.decode("utf-8", "surrogateescape"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    level = [] if is_cache else [value]
    for _ in range(DEEPEST):
        children = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        if not (level := [item for items in children for item in items]):
            return value
    raise ValueError("nested too deeply")


def count_values(data: bytes) -> int:
    """Return an upper bound of the number of values in the JSON text."""
    return 1 + sum(map(data.count, (b",", b"[", b"{")))
