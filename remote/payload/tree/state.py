"""What is remembered of a project's tree: its manifest, and how its files looked when their digests were known."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
from dataclasses import dataclass, field
from typing import Any, Dict, NamedTuple, Optional, Tuple

from remote.payload.files.atomic import PART, write_whole
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import Manifest, Row, pack_manifest, parse_manifest
from remote.protocol.values import Malformed

HASH_CHUNK = 2**20
BOOT_ID = "/proc/sys/kernel/random/boot_id"

Look = Tuple[int, int, int, int]
"""Size, mtime and ctime in ns, inode: while these stay, the bytes stayed, unless the machine went down."""


@dataclass(frozen=True)
class Stats:
    """What files looked like, by path, when they had the digest beside it. `boot` is the boot that saw it."""

    boot: str = ""
    rows: Dict[str, Tuple[Look, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """A change of the tree. While it is unfinished, a path may be as in `before` or as in `after`.

    Both hold only the paths that change. The contents of `puts` lie in staging under their `installed` digest; other
    paths of `after` change only their mode. `keep`: edited paths that a forced sync moves into `keep_in` first.
    """

    before: Dict[str, Row]
    after: Dict[str, Row]
    puts: Tuple[str, ...] = ()
    keep: Tuple[str, ...] = ()
    keep_in: str = ""

    @property
    def deletes(self) -> Tuple[str, ...]:
        return tuple(path for path in self.before if path not in self.after)

    def applied_to(self, manifest: Manifest) -> Manifest:
        """The manifest once this is done; the same again where it was done."""
        rows = {path: row for path, row in manifest.rows.items() if path not in self.before}
        return Manifest({**rows, **self.after})


@dataclass(frozen=True)
class Project:
    """Where one project lies on this host; every member is an absolute path."""

    workdir: str
    layout: ProjectLayout

    def at(self, relative: str) -> str:
        return os.path.join(self.workdir, relative)

    @functools.cached_property
    def root(self) -> str:
        return self.at(self.layout.root)

    @functools.cached_property
    def tree(self) -> str:
        return self.at(self.layout.tree)

    @functools.cached_property
    def staging(self) -> str:
        return self.at(self.layout.staging)


def read_manifest(project: Project) -> Optional[Manifest]:
    """The manifest, None where there is none yet. Raises Malformed where it is damaged or newer than we are."""
    data = _read_json(project.at(project.layout.manifest))
    return None if data is None else parse_manifest(data)


def write_manifest(project: Project, manifest: Manifest) -> None:
    write_whole(project.at(project.layout.manifest), json_bytes(pack_manifest(manifest)))


def read_commit(project: Project) -> Optional[Commit]:
    """The change that was begun and not finished, if there is one. Raises Malformed."""
    data = _read_json(project.at(project.layout.commit))
    if data is None:
        return None
    try:
        before, after = parse_manifest(data["before"]).rows, parse_manifest(data["after"]).rows
        return Commit(before, after, tuple(data["puts"]), tuple(data["keep"]), str(data["keep_in"]))
    except (KeyError, TypeError) as error:
        raise Malformed(f"not a commit: {error}") from None


def write_commit(project: Project, commit: Commit) -> None:
    value = {
        "before": pack_manifest(Manifest(commit.before)),
        "after": pack_manifest(Manifest(commit.after)),
        "puts": list(commit.puts),
        "keep": list(commit.keep),
        "keep_in": commit.keep_in,
    }
    _put(project.at(project.layout.commit), json_bytes(value))


def read_stats(project: Project) -> Stats:
    """What is remembered; nothing where the memory is damaged, because it only saves work."""
    try:
        data = _read_json(project.at(project.layout.stats)) or {}
        rows = {path: ((a, b, c, d), digest) for path, (a, b, c, d, digest) in data["rows"].items()}
        return Stats(str(data["boot"]), rows)
    except (Malformed, KeyError, TypeError, ValueError, AttributeError):
        return Stats()


def write_stats(project: Project, stats: Stats) -> None:
    rows = {path: [*look, digest] for path, (look, digest) in stats.rows.items()}
    _put(project.at(project.layout.stats), json_bytes({"boot": stats.boot, "rows": rows}))


def _put(path: str, data: bytes) -> None:
    """Whole or not at all for a process that is killed; a power cut may take it.

    Waiting for the disk would cost more than the rest of a sync, and both files that are written so may be lost.
    """
    part = path + PART
    with open(part, "wb") as file:
        file.write(data)
    os.replace(part, path)


def boot_id() -> str:
    """Which boot this is; empty where the system does not say."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def look_at(status: os.stat_result) -> Look:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def digest_of_file(path: str) -> str:
    """SHA-256 of a regular file's bytes, in hex; a link is not followed."""
    digest = hashlib.sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0) as file:
        while chunk := file.read(HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_link(target: str) -> str:
    return hashlib.sha256(b"link:" + os.fsencode(target)).hexdigest()


class Lying(NamedTuple):
    """What lies at a path now: kind `file`, `link`, `other` (a folder, a device) or `missing`; its digest and its look.

    `damaged`: nobody wrote to it since we did, yet its bytes are others: the machine went down before they were kept.
    """

    kind: str
    digest: str = ""
    look: Optional[Look] = None
    damaged: bool = False


MISSING = Lying("missing")


def lying(tree: str, path: str, stats: Stats, boot: str) -> Lying:
    """What lies there now; read only where it looks other than remembered, or the machine was down since."""
    full = f"{tree}/{path}"
    try:
        status = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    if stat.S_ISLNK(status.st_mode):
        return Lying("link", digest_of_link(os.readlink(full)))
    if not stat.S_ISREG(status.st_mode):
        return Lying("other")
    look = look_at(status)
    known = stats.rows.get(path)
    if known is not None and known[0] == look and stats.boot == boot and boot:
        return Lying("file", known[1], look)
    digest = digest_of_file(full)
    damaged = known is not None and known[1] != digest and stats.boot != boot and known[0][1] == look[1]
    return Lying("file", digest, look, damaged)


def is_as(row: Row, found: Lying) -> bool:
    """What lies there is what the row says."""
    return found.kind == ("link" if row.link else "file") and found.digest == row.installed


def json_bytes(value: Any) -> bytes:
    """Plain values as JSON; `values.dumps` would walk every one of 20,000 rows first."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")


def _read_json(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read().decode("utf-8", "surrogateescape"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Malformed(f"{path}: {error}") from None
