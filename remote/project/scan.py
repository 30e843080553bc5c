"""The project as it lies on the laptop: what would be sent, and what is refused by name."""

from __future__ import annotations

import hashlib
import os
import posixpath
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from remote.errors import SyncRefused
from remote.project.digests import CachedDigest, StillChanging, digest_file, look_at, read_memory, write_memory
from remote.project.identity import owner_of, project_of
from remote.project.secrets import secret_by_name
from remote.project.walk import Walk, walk_project
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.tree import LARGE_BYTES, Manifest, Row

MIB = 2**20
SHOWN = 5
IGNORE_HINT = "add it to .pipelineignore"


@dataclass(frozen=True)
class Limits:
    """What is too big to be code; from `large_bytes` on, a file that git does not track is warned about."""

    file_bytes: int = 100 * MIB
    large_bytes: int = LARGE_BYTES
    total_bytes: int = 2048 * MIB
    files: int = 20_000


@dataclass(frozen=True)
class Scan:
    """One look at the project. `manifest` is what the laptop has; empty where the project is too large to read."""

    root: Path
    project: str
    owner: str
    manifest: Manifest
    report: Report
    limits: Limits = field(default_factory=Limits)
    apart: str = ""

    @property
    def size_bytes(self) -> int:
        return sum(row.size for row in self.manifest.rows.values())

    def paths(self) -> tuple[str, ...]:
        """The regular files, in order."""
        return tuple(path for path, row in self.manifest.rows.items() if not row.link)

    def digest(self, path: str) -> str:
        """The SHA-256 of one file of the project, as it was looked at."""
        return self.manifest.rows[path].source

    def read(self, path: str) -> bytes:
        """The bytes of one file of the project, as they are now."""
        return (self.root / path).read_bytes()


def scan_project(
    root: Path, *, project: str = "", owner: str = "", limits: Limits | None = None, apart: str = ""
) -> Scan:
    """The project under `root`, digests taken from memory where a file looks unchanged.

    `project` is its key on the host and `owner` who may change it there; left out, both follow from this machine and
    `root`. A link to elsewhere at `apart` is left out, because what it leads to is sent by itself. Raises SyncRefused
    where `root` is no project: no folder, a home, or the root of the file system.
    """
    root = _project_root(root)
    limits = limits or Limits()
    walk = walk_project(root)
    secrets = {path: why for path in walk.files if (why := secret_by_name(path))}
    links, astray = _read_links(root, walk, apart)
    large = list(_judge_limits(walk, limits))
    rows, unread = ({}, []) if large else _read_rows(root, walk, leave=secrets)
    named = [_secret(path, why) for path, why in secrets.items()]
    untracked = _judge_untracked(walk, limits)
    report = Report((*_judge_odd(walk), *large, *untracked, *_judge_names(walk), *named, *unread, *astray))
    manifest = Manifest({} if large else dict(sorted({**rows, **links}.items())))
    return Scan(root, project or project_of(root), owner or owner_of(root), manifest, report, limits, apart)


def scan_again(scan: Scan) -> Scan:
    """The same project, looked at now."""
    return scan_project(scan.root, project=scan.project, owner=scan.owner, limits=scan.limits, apart=scan.apart)


def _project_root(root: Path) -> Path:
    real = root.expanduser().resolve()
    if not real.is_dir():
        raise SyncRefused(f"{root} is not a folder", where="project", hint="set `project:` in the config")
    home = Path("~").expanduser().resolve()
    if real == Path(real.anchor) or real == home or real in home.parents:
        raise SyncRefused(
            f"{real} is not a project but a home folder or one above it",
            where="project",
            hint="cd into the project's own folder",
        )
    return real


def _read_rows(root: Path, walk: Walk, *, leave: Container[str]) -> tuple[dict[str, Row], list[Finding]]:
    memory = read_memory(root / ".halfstep")
    known: dict[str, CachedDigest] = {}
    rows: dict[str, Row] = {}
    findings: list[Finding] = []
    top = str(root)
    for path, status in walk.files.items():
        if path in leave:
            continue
        one = memory.get(path)
        if one is None or one.look != look_at(status):
            try:
                one = digest_file(f"{top}/{path}", path)
            except StillChanging:
                findings.append(_refusal("changing", path, "kept changing while it was read"))
                continue
            except OSError as error:
                findings.append(_unreadable(path, error))
                continue
        known[path] = one
        if one.secret:
            findings.append(_secret(path, one.secret))
            continue
        rows[path] = Row(one.digest, one.digest, 0o755 if status.st_mode & 0o100 else 0o644, one.look[0])
    if known != memory:
        write_memory(root / ".halfstep", known)
    return rows, findings


def _read_links(root: Path, walk: Walk, apart: str) -> tuple[dict[str, Row], list[Finding]]:
    rows: dict[str, Row] = {}
    findings: list[Finding] = []
    for path, target in walk.links.items():
        why = _link_problem(root, path, target)
        if why and path == apart:
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
        real = (root / path).resolve(strict=True)
    except OSError as error:
        return "which leads in a circle" if "loop" in str(error).lower() else "which does not exist"
    except RuntimeError:
        return "which leads in a circle"
    return "" if real.is_relative_to(root) else "which is outside the project"


def _judge_odd(walk: Walk) -> Iterable[Finding]:
    for path, kind in walk.odd.items():
        yield _refusal("not-regular", path, f"is {kind}")
    for path, why in walk.unreadable.items():
        yield _refusal("unreadable", path, f"cannot be read: {why}")
    for path in walk.too_deep[:SHOWN]:
        yield _refusal("too-deep", path, "lies too many folders deep")


def _judge_limits(walk: Walk, limits: Limits) -> Iterable[Finding]:
    sizes = {path: status.st_size for path, status in walk.files.items()}
    big = {path: size for path, size in sizes.items() if size > limits.file_bytes}
    if big:
        yield _too_large(
            f"{len(big)} file(s) over {_mib(limits.file_bytes)}: {_top(big)}",
            "add them to .pipelineignore; what the job needs of them, name in the config as `data: {path: ...}`",
        )
    rest = {path: size for path, size in sizes.items() if path not in big}
    total = sum(rest.values())
    if total > limits.total_bytes:
        folders: Counter[str] = Counter()
        for path, size in rest.items():
            folders[_upper_folder(path)] += size
        yield _too_large(
            f"{_mib(total)} in all, over {_mib(limits.total_bytes)}; most of it in {_top(folders)}",
            "add what is not code to .pipelineignore",
        )
    if len(sizes) > limits.files or walk.cut:
        counts = Counter(_upper_folder(path) for path in sizes)
        named = ", ".join(f"{shown(path)} ({count} files)" for path, count in counts.most_common(SHOWN))
        yield _too_large(
            f"{len(sizes)}{' or more' if walk.cut else ''} files, over {limits.files}; most of them in {named}",
            "add what is not code to .pipelineignore",
        )


def _judge_untracked(walk: Walk, limits: Limits) -> Iterable[Finding]:
    """A large file that git does not track was mostly left by an experiment, and every sync carries it."""
    sizes = {path: status.st_size for path, status in walk.files.items() if path not in walk.tracked}
    large = {path: size for path, size in sizes.items() if limits.large_bytes <= size <= limits.file_bytes}
    if large:
        yield Finding(
            "large-untracked",
            Severity.WARNING,
            f"{len(large)} file(s) of {limits.large_bytes / 10**6:g} MB or more that git does not track: {_top(large)}",
            where=shown(max(large, key=large.__getitem__)),
            hint="add them to .pipelineignore; what the job needs of them, name in the config as `data: {path: ...}`",
        )


def _upper_folder(path: str) -> str:
    parts = PurePosixPath(path).parts
    return "/".join(parts[: min(2, len(parts) - 1)]) + "/" if len(parts) > 1 else path


def _top(sizes: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{shown(path)} ({_mib(size)})" for path, size in Counter(sizes).most_common(SHOWN))


def _judge_names(walk: Walk) -> Iterable[Finding]:
    seen: dict[str, str] = {}
    for path in (*walk.files, *walk.links):
        folded = path.lower() if path.isascii() else unicodedata.normalize("NFC", path).casefold()
        other = seen.setdefault(folded, path)
        if other != path:
            yield Finding(
                "same-name",
                Severity.ERROR,
                f"{path!r} and {other!r} are one name where case or accents do not count",
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
        hint="name what the job needs under `secrets:` of the config, and the file in .gitignore",
    )


def _refusal(check: str, path: str, why: str) -> Finding:
    return Finding(check, Severity.ERROR, f"{path!r} {why}", shown(path), IGNORE_HINT, ExitCode.SYNC)


def _unreadable(path: str, error: OSError) -> Finding:
    if isinstance(error, FileNotFoundError):
        return _refusal("vanished", path, "vanished while the project was read")
    return _refusal("unreadable", path, f"cannot be read: {error.strerror}")


def _too_large(message: str, hint: str) -> Finding:
    return Finding("too-large", Severity.ERROR, message, hint=hint, exit_code=ExitCode.SYNC)


def shown(path: str) -> str:
    """A path as text that can be printed: bytes that are no UTF-8 as escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
