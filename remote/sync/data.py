"""Large data on its way to the host, apart from code: named there by its manifest's digest, sent once, resumed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from remote.errors import SyncRefused
from remote.host import Host
from remote.project.digests import CachedDigest, StillChanging, digest_file, look_at, read_memory, write_memory
from remote.project.scan import shown
from remote.project.secrets import secret_by_name
from remote.protocol.findings import Finding, Report, Severity
from remote.sync.ahead import pack_ahead
from remote.sync.retry import over_cuts
from remote.sync.stream import Progress, file_pieces, pack_head

MEMORY = "data.json"
OUT = frozenset({".git", ".halfstep", "__pycache__", ".DS_Store"})


@dataclass(frozen=True)
class DataScan:
    """A folder or one file of data as it lies here. `files`: name to (digest, size); `digest` names it on a host."""

    root: Path
    files: Mapping[str, tuple[str, int]]
    digest: str
    report: Report

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.files.values())


def data_digest(root: Path, memory: Path | None = None) -> str:
    """The name of that data on every host; see `scan_data`."""
    return scan_data(root, memory).digest


def scan_data(root: Path, memory: Path | None = None) -> DataScan:
    """The data at `root`, a folder or a file. Links are followed. Raises SyncRefused where it cannot be read.

    `memory` is a folder to remember digests in, so that unchanged data is not read again. What looks like a secret, by
    its name, by the name of what a link leads to, or by its content, is left out with a warning; SyncRefused where
    nothing else is left.
    """
    if not root.exists():
        raise SyncRefused(f"{root} is not there", where="data.path", hint="set `data.path:` in the config")
    known = read_memory(memory, MEMORY) if memory else {}
    fresh: dict[str, CachedDigest] = {}
    files: dict[str, tuple[str, int]] = {}
    findings: list[Finding] = []
    for name, path in sorted(_list_files(root)):
        why = secret_by_name(name) or secret_by_name(path.resolve().as_posix())
        if not why:
            one = fresh[str(path)] = _digest_of(path, known.get(str(path)))
            why = one.secret
        if why:
            findings.append(_left_out(name, why))
        else:
            files[name] = (one.digest, one.look[0])
    if memory and fresh != known:
        write_memory(memory, fresh, MEMORY)
    if findings and not files:
        words = f"nothing of {root} may be sent: {findings[0].message}"
        raise SyncRefused(words, where="data.path", hint="set `data.path:` to the data alone")
    text = json.dumps(files, sort_keys=True, separators=(",", ":")).encode("utf-8", "surrogateescape")
    return DataScan(root, files, hashlib.sha256(text).hexdigest(), Report(tuple(findings)))


def send_data(
    host: Host,
    scan: DataScan,
    project: str,
    *,
    progress: Progress | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """The absolute path, there, of a folder that holds the data whole; only what the host lacks is sent.

    A cut line is taken up again up to five times where it was cut. Raises what `sync_project` raises.
    """
    return over_cuts(host, lambda _: _send(host, scan, project, progress), wait)


def _send(host: Host, scan: DataScan, project: str, progress: Progress | None) -> str:
    seen = host.ask("data.survey", {"project": project, "digest": scan.digest})
    if seen["path"]:
        return str(seen["path"])
    have: Mapping[str, int] = seen["have"]
    offsets = {name: have.get(name, 0) if have.get(name, 0) <= size else 0 for name, (_, size) in scan.files.items()}
    head = pack_head({"files": [[name, *known, offsets[name]] for name, known in scan.files.items()]})
    stream = pack_ahead(_pieces(head, scan, offsets, progress), "zlib", lambda: host.in_flight)
    answer = host.send("data.receive", {"project": project, "digest": scan.digest, "codec": "zlib"}, stream)
    if answer["torn"]:
        name = str(answer["torn"][0])
        raise SyncRefused(f"{name!r} changed while it was sent", where=shown(name), hint="type the same again")
    return str(answer["path"])


def _pieces(
    head: bytes, scan: DataScan, offsets: Mapping[str, int], progress: Progress | None
) -> Iterator[tuple[bytes, bool]]:
    yield head, False
    done = sum(offsets.values())
    for name, (_, size) in scan.files.items():
        path = scan.root / name if scan.root.is_dir() else scan.root
        for piece in file_pieces(path, size - offsets[name], start=offsets[name], follow=True):
            yield piece
            done += len(piece[0])
            if progress is not None:
                progress(done, scan.size_bytes)


def _digest_of(path: Path, known: CachedDigest | None) -> CachedDigest:
    try:
        if known is not None and known.look == look_at(path.stat()):
            return known
        return digest_file(path, path.name, follow=True)
    except StillChanging:
        raise SyncRefused(f"{path} kept changing while it was read", where=shown(str(path))) from None
    except OSError as error:
        raise SyncRefused(f"{path} cannot be read: {error.strerror}", where=shown(str(path))) from None


def outside_of(root: Path, project: Path) -> tuple[Path, ...]:
    """The real folders that data at `root` comes from and that do not lie in the project, each once.

    That is `root` itself, and where links inside it lead: a folder, or the one that a linked file lies in. Links within
    such a folder are not looked at.
    """
    real = root.resolve()
    found = {} if real.is_relative_to(project) else {real: None}
    for folder, folders, names in os.walk(real):
        folders[:] = [name for name in folders if name not in OUT]
        for name in (*folders, *names):
            path = Path(folder, name)
            if path.is_symlink():
                target = path.resolve()
                place = target if target.is_dir() else target.parent
                if not place.is_relative_to(real) and not place.is_relative_to(project):
                    found[place] = None
    return tuple(found)


def _list_files(root: Path) -> Iterator[tuple[str, Path]]:
    if root.is_file():
        yield root.name, root
        return
    entered: set[tuple[int, int]] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        status = Path(folder).stat()
        if (status.st_dev, status.st_ino) in entered:
            folders.clear()
            continue
        entered.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if name not in OUT)
        for name in names:
            path = Path(folder, name)
            if name not in OUT:
                yield path.relative_to(root).as_posix(), _regular(path)


def _regular(path: Path) -> Path:
    try:
        regular = stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        raise SyncRefused(f"{path} cannot be read: {error.strerror}", where=shown(str(path))) from None
    if not regular:
        raise SyncRefused(f"{path} is no regular file", where=shown(str(path)), hint="move it out of the data")
    return path


def _left_out(name: str, why: str) -> Finding:
    message = f"{name!r} is not sent with the data: {why}"
    hint = "if it is no secret, write ${NAME} or <name> for the value; if it is, take it out of the data"
    return Finding("secret-file", Severity.WARNING, message, shown(name), hint)
