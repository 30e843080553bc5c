"""The stored state of a project's tree: its manifest, an unfinished commit, and the stamps of files of known digest."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import stat
from typing import Any, Dict, NamedTuple, Optional, Tuple

from remote.payload.files.atomic import PART, write_atomic
from remote.protocol.dataclass import dataclass, field
from remote.protocol.layout import ProjectLayout
from remote.protocol.tree import Manifest, Row, pack_manifest, parse_manifest
from remote.protocol.values import Malformed

HASH_CHUNK = 2**20

FileStamp = Tuple[int, int, int, int]
"""Size, mtime and ctime in ns, inode. If the stamp is unchanged, so is the content, unless the machine crashed."""


@dataclass(frozen=True)
class Stats:
    """The stamp and the digest of each file by path, read after the boot with the id `boot`."""

    boot: str = ""
    rows: Dict[str, Tuple[FileStamp, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Commit:
    """A change of the tree.

    While the commit is unfinished, each path is either in its state of `before` or in its state of `after`.

    `before` and `after` contain only the paths that change. `puts` are the paths with new content, which is in staging
    under the `installed` digest. Other paths in `after` change only their mode. `keep` are edited paths that a forced
    sync moves to the folder `keep_in` first.
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
        """Return the manifest after this commit. Idempotent."""
        rows = {path: row for path, row in manifest.rows.items() if path not in self.before}
        return Manifest({**rows, **self.after})


@dataclass(frozen=True)
class Project:
    """The absolute paths of one project on this host."""

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
    """Return the manifest, or None if the file does not exist.

    Raises Malformed if the file is damaged, or was written by a newer version.
    """
    data = _read_json(project.at(project.layout.manifest))
    return None if data is None else parse_manifest(data)


def holds_synced_files(project: Project, *paths: str) -> bool:
    """Return True if one of the paths, relative to the tree, is or contains a file or link that the laptop sent.

    A path below such a link counts too. The result is True if the records are damaged.
    """
    try:
        manifest, commit = read_manifest(project), read_commit(project)
    except Malformed:
        return True
    rows = {**(manifest.rows if manifest else {}), **(commit.after if commit else {})}
    above = {path[:end] for path in paths for end in range(1, len(path) + 1) if path[end : end + 1] in ("", "/")}
    inside = tuple(f"{path}/" for path in paths)
    return any(row in above or row.startswith(inside) for row in rows)


def write_manifest(project: Project, manifest: Manifest) -> None:
    write_atomic(project.at(project.layout.manifest), json_bytes(pack_manifest(manifest)))


def read_commit(project: Project) -> Optional[Commit]:
    """Return the unfinished commit, or None. Raises Malformed if the file of the commit is damaged."""
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
    """Return the stored stamps. Stamps only save work, so the result is empty if the file is damaged."""
    try:
        data = _read_json(project.at(project.layout.stats)) or {}
        rows = {path: ((a, b, c, d), digest) for path, (a, b, c, d, digest) in data["rows"].items()}
        return Stats(str(data["boot"]), rows)
    except (Malformed, KeyError, TypeError, ValueError, AttributeError):
        return Stats()


def write_stats(project: Project, stats: Stats) -> None:
    rows = {path: [*stamp, digest] for path, (stamp, digest) in stats.rows.items()}
    _put(project.at(project.layout.stats), json_bytes({"boot": stats.boot, "rows": rows}))


def _put(path: str, data: bytes) -> None:
    """Write atomically, but without fsync, which would take longer than all other steps of a sync.

    A power cut may lose the file. Only files that can be rebuilt are written this way.
    """
    part = path + PART
    with open(part, "wb") as file:
        file.write(data)
    os.replace(part, path)


def stamp_of(status: os.stat_result) -> FileStamp:
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def digest_of_file(path: str) -> str:
    """Return the SHA-256 of a file, in hex. Raises OSError for a symlink."""
    digest = hashlib.sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb", buffering=0) as file:
        while chunk := file.read(HASH_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def digest_of_link(target: str) -> str:
    return hashlib.sha256(b"link:" + os.fsencode(target)).hexdigest()


class FileState(NamedTuple):
    """A path's kind (`file`, `link`, `other` such as a folder, or `missing`), its digest and its stamp.

    `damaged` means that the content changed although the mtime did not: the machine crashed before it wrote the content
    to the disk.
    """

    kind: str
    digest: str = ""
    stamp: Optional[FileStamp] = None
    damaged: bool = False


MISSING = FileState("missing")


def read_state(tree: str, path: str, stats: Stats, boot: str) -> FileState:
    """Return the state of one path. A file is read only if its stamp has changed or the machine was rebooted."""
    full = f"{tree}/{path}"
    try:
        status = os.lstat(full)
    except (FileNotFoundError, NotADirectoryError):
        return MISSING
    if stat.S_ISLNK(status.st_mode):
        return FileState("link", digest_of_link(os.readlink(full)))
    if not stat.S_ISREG(status.st_mode):
        return FileState("other")
    stamp = stamp_of(status)
    known = stats.rows.get(path)
    if known is not None and known[0] == stamp and stats.boot == boot and boot:
        return FileState("file", known[1], stamp)
    digest = digest_of_file(full)
    damaged = known is not None and known[1] != digest and stats.boot != boot and known[0][1] == stamp[1]
    return FileState("file", digest, stamp, damaged)


def matches(row: Row, current: FileState) -> bool:
    """Return True if the file matches the row."""
    return current.kind == ("link" if row.link else "file") and current.digest == row.installed


def json_bytes(value: Any) -> bytes:
    """Encode plain values as JSON.

    `values.dumps` is slower, because it converts each row first, and there may be 20,000 rows.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogateescape")


def _read_json(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read().decode("utf-8", "surrogateescape"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise Malformed(f"{path}: {error}") from None
