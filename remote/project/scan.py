"""Scan a local project. The result is the manifest of the files to send, and a finding for each refused file."""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import unicodedata
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from io import FileIO
from pathlib import Path
from typing import TypeVar, cast

from remote.errors import SyncRefused
from remote.project.digests import (
    CachedDigest,
    FileIdentity,
    StillChanging,
    digest_file,
    identity_of,
    is_same_file,
    open_judged,
    read_digest_cache,
    read_scanned,
    stat_fields,
    write_digest_cache,
)
from remote.project.identity import owner_of, project_of
from remote.project.included_files import Walk, shown, walk_project
from remote.project.kept_contents import KeptContents
from remote.project.limits import Limits, judge_limits, judge_untracked
from remote.project.paths import expanded, is_folder, resolved
from remote.project.real_paths import is_inside
from remote.project.repository_findings import judge_repositories
from remote.project.secrets import secret_by_name
from remote.protocol.dataclass import dataclass, field
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.tree import Manifest, Row

SHOWN = 5
IGNORE_HINT = "add it to .pipelineignore"
CODE_SUFFIXES = (".cfg", ".ini", ".ipynb", ".json", ".py", ".sh", ".toml", ".yaml", ".yml")
"""Suffixes of files that fixers may rewrite. Untracked files with other suffixes are not code in a folder of data."""

Found = TypeVar("Found")


@dataclass(frozen=True)
class Scan:
    """A scanned project. `manifest` lists the local files; it is empty if the project exceeds the limits.

    `untracked` contains the files that git does not track. Without git, it contains all files.
    """

    root: Path
    project: str
    owner: str
    manifest: Manifest
    report: Report
    limits: Limits = field(default_factory=Limits)
    data_link: str = ""
    judged: Mapping[str, FileIdentity] = field(default_factory=dict)
    untracked: frozenset[str] = frozenset()
    kept: KeptContents = field(default_factory=KeptContents, repr=False, compare=False)
    derived: dict[object, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        return sum(row.size for row in self.manifest.rows.values())

    def paths(self) -> tuple[str, ...]:
        """Return the regular files, in order."""
        return tuple(path for path, row in self.manifest.rows.items() if not row.link)

    def digest(self, path: str) -> str:
        """Return the SHA-256 that the file had at the time of the scan."""
        return self.manifest.rows[path].source

    def opened(self, path: str) -> FileIO:
        """Open a file as it was scanned. Raises OSError if it has changed, or if another file is in its place."""
        return open_judged(f"{self.root}/{path}", self.judged[path])

    def read(self, path: str) -> bytes:
        """Return the content that a file had at the time of the scan.

        The content of a small file is kept in memory: a run works on the files that were sent, also if they are edited
        meanwhile. Raises SyncRefused if the file now has another content, or if a link is in its place. Raises
        FileNotFoundError if the scan does not contain it.
        """
        row = self.manifest.rows.get(path)
        if row is None or row.link:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        data = self.kept.find(row.source)
        if data is None:
            data = read_scanned(f"{self.root}/{path}", path, row.source, row.size)
            self.kept.keep(row.source, data)
        return data

    def derive(self, path: str, find: Callable[[bytes], Found]) -> Found:
        """Return `find` of the file's content, which is computed once. Raises OSError and SyncRefused like `read`."""
        key = (find, self.digest(path))
        if key not in self.derived:
            self.derived[key] = find(self.read(path))
        return cast(Found, self.derived[key])


def scan_project(
    root: Path, *, project: str = "", owner: str = "", limits: Limits | None = None, data_link: str = ""
) -> Scan:
    """Scan the project under `root`. Digests are cached: a file is read again only if its size, times or inode changed.

    `project` is the project's key on the host, `owner` the user and folder that the project belongs to. Both default to
    values derived from this machine and `root`. `data_link` is the path of the data, which are sent separately. A link
    at this path is left out and may point outside the project. Untracked files below it are left out too, unless they
    are code. Raises SyncRefused if `root` is not a folder, is a home folder, or contains one.
    """
    root = _project_root(root)
    limits = limits or Limits()
    walk = _without_data(walk_project(root), data_link)
    if walk.root and not is_inside(walk.root, [root]):
        message = f"{root} was replaced by a link to {walk.root}; nothing was sent"
        raise SyncRefused(message, where="project", hint="run the command again")
    secrets = {path: why for path in walk.files if (why := secret_by_name(path))}
    links, link_findings = _read_links(root, walk, data_link)
    large = list(judge_limits(walk, limits))
    judged: dict[str, FileIdentity] = {}
    rows, unread = ({}, []) if large else _read_rows(root, walk, judged, leave=secrets)
    named = [_secret(path, why) for path, why in secrets.items()]
    found = (*_judge_special_files(walk), *large, *judge_untracked(walk, limits), *judge_repositories(walk, root))
    report = Report((*found, *_judge_names(walk), *named, *unread, *link_findings))
    manifest = Manifest({} if large else dict(sorted({**rows, **links}.items())))
    untracked = frozenset(walk.files) - walk.tracked
    key, owner = project or project_of(root), owner or owner_of(root)
    return Scan(root, key, owner, manifest, report, limits, data_link, judged, untracked)


def _without_data(walk: Walk, data_link: str) -> Walk:
    if not data_link:
        return walk
    folder = f"{data_link}/"
    kept = {
        path: status
        for path, status in walk.files.items()
        if path in walk.tracked or path.endswith(CODE_SUFFIXES) or not f"{path}/".startswith(folder)
    }
    return replace(walk, files=kept)


def scan_again(scan: Scan) -> Scan:
    """Scan the same project again."""
    return scan_project(scan.root, project=scan.project, owner=scan.owner, limits=scan.limits, data_link=scan.data_link)


def _project_root(root: Path) -> Path:
    real = expanded(root).absolute()
    if not is_folder(real):
        raise SyncRefused(f"{root} is not a folder", where="project", hint="set `project:` in the config")
    home = resolved(expanded("~"))
    if real == Path(real.anchor) or real == home or real in home.parents:
        raise SyncRefused(
            f"{real} is a home folder or contains one, not a project",
            where="project",
            hint="cd into the project's own folder",
        )
    return real


def _read_rows(
    root: Path, walk: Walk, judged: dict[str, FileIdentity], *, leave: Container[str]
) -> tuple[dict[str, Row], list[Finding]]:
    memory = read_digest_cache(root / ".halfstep")
    known: dict[str, CachedDigest] = {}
    rows: dict[str, Row] = {}
    findings: list[Finding] = []
    top = str(root)
    for path, status in walk.files.items():
        if path in leave:
            continue
        cached, judged[path] = memory.get(path), identity_of(status)
        if cached is None or cached.look != stat_fields(status):
            try:
                cached, judged[path] = digest_file(f"{top}/{path}", path)
                if not is_same_file(judged[path], status):
                    raise StillChanging(path)
            except StillChanging:
                findings.append(_refusal("changing", path, "kept changing while it was being read"))
                continue
            except OSError as error:
                findings.append(_unreadable(path, error))
                continue
        known[path] = cached
        if cached.secret:
            findings.append(_secret(path, cached.secret))
            continue
        rows[path] = Row(cached.digest, cached.digest, 0o755 if status.st_mode & 0o100 else 0o644, cached.look[0])
    if known != memory:
        write_digest_cache(root / ".halfstep", known)
    return rows, findings


def _read_links(root: Path, walk: Walk, data_link: str) -> tuple[dict[str, Row], list[Finding]]:
    rows: dict[str, Row] = {}
    findings: list[Finding] = []
    for path, target in walk.links.items():
        why = _link_problem(root, path, target)
        if why and path == data_link:
            continue
        if why:
            findings.append(_refusal("link", path, f"is a link to {target!r}, {why}"))
        else:
            digest = hashlib.sha256(b"link:" + os.fsencode(target)).hexdigest()
            rows[path] = Row(digest, digest, 0o755, 0, target)
    return rows, findings


def _link_problem(root: Path, path: str, target: str) -> str:
    landing = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    if target.startswith("/") or landing == ".." or landing.startswith("../"):
        return "which is outside the project"
    try:
        real = os.path.realpath(root / path, strict=True)
    except OSError as error:
        return "which is circular" if error.errno == errno.ELOOP else "which does not exist"
    return "" if Path(real).is_relative_to(root) else "which is outside the project"


def _judge_special_files(walk: Walk) -> Iterable[Finding]:
    for path, kind in walk.special.items():
        yield _refusal("not-regular", path, f"is {kind}")
    for path, why in walk.unreadable.items():
        yield _refusal("unreadable", path, f"cannot be read: {why}")
    for path in walk.too_deep[:SHOWN]:
        yield _refusal("too-deep", path, "is nested too deeply")


def _judge_names(walk: Walk) -> Iterable[Finding]:
    seen: dict[str, str] = {}
    for path in (*walk.files, *walk.links):
        folded = path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()
        other = seen.setdefault(folded, path)
        if other != path:
            yield Finding(
                "same-name",
                Severity.ERROR,
                f"{path!r} and {other!r} are the same name on a file system that ignores case or accents",
                where=shown(path),
                hint="rename one of them",
                exit_code=ExitCode.SYNC,
            )


def _secret(path: str, why: str) -> Finding:
    return Finding(
        "secret-file",
        Severity.WARNING,
        f"{path!r} is not sent: {why}",
        where=shown(path),
        hint="list what the job needs under `secrets:` in the config, and add the file to .gitignore",
    )


def _refusal(check: str, path: str, why: str) -> Finding:
    return Finding(check, Severity.ERROR, f"{path!r} {why}", shown(path), IGNORE_HINT, ExitCode.SYNC)


def _unreadable(path: str, error: OSError) -> Finding:
    if isinstance(error, FileNotFoundError):
        return _refusal("vanished", path, "vanished while the project was being read")
    return _refusal("unreadable", path, f"cannot be read: {error.strerror}")
