"""A run's TensorBoard files as they lie on the host: which there are, and their whole records as one stream."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from typing import Any, BinaryIO, Dict, FrozenSet, Iterator, List, Optional, Tuple

from remote.payload.atomic import write_whole
from remote.payload.call import Call
from remote.protocol.events import MARK
from remote.protocol.jobs import EventFile
from remote.protocol.layout import ProjectLayout, RunLayout
from remote.protocol.records import HEADER, LENGTH, MAX_RECORD, OVERHEAD, Ending, scan_file, whole_prefix
from remote.protocol.segments import FRESH, SEGMENT, tail_digest
from remote.protocol.values import dumps

OUTSIDE = "outside"
ROOTS = ("tensorboard", "checkpoints", "code", OUTSIDE)
INDEX = "events.json"
SKIPPED = frozenset({".git", "__pycache__", "node_modules", "venv", ".venv"})
MAX_DEPTH = 8
MAX_FILES = 10_000
BLOCK = 2**20
TAIL_CHECKED = 256 * 2**10


def survey_events(run_root: str) -> Tuple[EventFile, ...]:
    """Every event file the run made, by name, with its size in whole records; changes nothing.

    Lengths of all records are checked, and data near the end; a pull checks everything.
    """
    index = _read_index(run_root)
    files = []
    for name, path in find_events(run_root):
        found = _survey_file(name, path, index.get(name))
        if found is not None:
            files.append(found)
    return tuple(files)


def seal_events(run_root: str) -> None:
    """The run has an index of its event files, so that later surveys need not read them; for a job that has ended."""
    rows = {}
    for name, path in find_events(run_root):
        found = _survey_file(name, path, None)
        if found is not None:
            rows[name] = [found.size_bytes, found.head_sha256, found.ending, *_stamp(os.stat(path))]
    write_whole(os.path.join(run_root, INDEX), dumps({"files": rows}))


def find_events(run_root: str, roots: Tuple[str, ...] = ROOTS) -> List[Tuple[str, str]]:
    """(name, path) of every event file, sorted: regular files, no link followed, none that came with the project.

    Where the config's `logs.tensorboard` leads out of the run's folder, what was written there since the run began is
    named `outside/...`.
    """
    found = [pair for root in roots if root != OUTSIDE for pair in _walk(root, os.path.join(run_root, root), 1)]
    outside = outside_folder(run_root) if OUTSIDE in roots else ""
    if outside:
        began = os.stat(RunLayout(run_root).record).st_mtime_ns
        found += [(name, path) for name, path in _walk(OUTSIDE, outside, 1) if os.lstat(path).st_mtime_ns >= began]
    if any(name.startswith("code/") for name, _ in found):
        sent = _sent_with_project(run_root)
        found = [(name, path) for name, path in found if name not in sent]
    return sorted(found)[:MAX_FILES]


def resolve(run_root: str, name: str) -> str:
    """The path of an event file's name."""
    first, _, rest = name.partition("/")
    return (
        os.path.join(outside_folder(run_root) or run_root, rest) if first == OUTSIDE else os.path.join(run_root, name)
    )


def outside_folder(run_root: str) -> str:
    """The real folder that the run's config names for event files, where it is not in the run's own; else empty."""
    run = RunLayout(run_root)
    try:
        with open(run.record, encoding="utf-8", errors="surrogateescape") as file:
            named = str(json.load(file)["settings"]["config"]["logs"]["tensorboard"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    folder = os.path.realpath(os.path.join(run.code, os.path.expanduser(named)))
    inside = (folder + os.sep).startswith(os.path.realpath(run_root) + os.sep)
    return "" if named == "auto" or inside or not os.path.isdir(folder) else folder


def open_regular(path: str) -> BinaryIO:
    """The file, where it is a regular one and no link. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"not a regular file: {path}")
    return os.fdopen(fd, "rb")


def continues(file: BinaryIO, offset: int, tail_sha256: str) -> bool:
    """The file still begins with what was read before: its bytes just before `offset` are the ones remembered."""
    return os.fstat(file.fileno()).st_size >= offset and tail_digest(file.fileno(), offset) == tail_sha256


def next_records(file: BinaryIO, offset: int) -> Tuple[bytes, Ending]:
    """Whole records from `offset` on, about a block of them; where there are none, why."""
    data = os.pread(file.fileno(), BLOCK, offset)
    prefix = whole_prefix(data)
    if prefix.size_bytes == 0 and prefix.ending is Ending.TORN and len(data) >= HEADER.size:
        data = _pread_all(file, OVERHEAD + LENGTH.unpack_from(data)[0], offset)
        prefix = whole_prefix(data)
    return data[: prefix.size_bytes], prefix.ending


def read_events(call: Call) -> Dict[str, Any]:
    """The whole records of many files from given offsets, one stream of segments: index, flags, size, bytes.

    `wants`: [name, offset, tail digest there]. A file that no longer continues there begins anew (FRESH).
    """
    root = call.path(call.args["run"])
    rows: List[Dict[str, Any]] = []
    for index, (name, offset, tail) in enumerate(call.args["wants"]):
        try:
            with open_regular(resolve(root, name)) as file:
                rows.append({"name": name, **_send_file(call, file, index, offset, tail)})
        except OSError as error:
            rows.append({"name": name, "ending": "", "reason": error.strerror or str(error)})
    return {"files": rows}


def _send_file(call: Call, file: BinaryIO, index: int, offset: int, tail: str) -> Dict[str, Any]:
    flags = 0
    if not continues(file, offset, tail):
        offset, flags = 0, FRESH
    while True:
        records, ending = next_records(file, offset)
        if not records:
            break
        call.give(SEGMENT.pack(index, flags, len(records)) + records)
        offset, flags = offset + len(records), 0
    return {"ending": ending.value, "size_bytes": offset, "fresh": bool(flags)}


def _pread_all(file: BinaryIO, size: int, offset: int) -> bytes:
    data = bytearray()
    while len(data) < min(size, MAX_RECORD + OVERHEAD):
        chunk = os.pread(file.fileno(), size - len(data), offset + len(data))
        if not chunk:
            break
        data.extend(chunk)
    return bytes(data)


def _survey_file(name: str, path: str, sealed: Optional[List[Any]]) -> Optional[EventFile]:
    try:
        with open_regular(path) as file:
            status = os.fstat(file.fileno())
            if sealed and sealed[3:] == _stamp(status):
                return EventFile(name, sealed[0], status.st_ino, sealed[1], sealed[2])
            prefix = scan_file(file, check_from=max(0, status.st_size - TAIL_CHECKED))
            head = _head(file) if prefix.records else ""
            return EventFile(name, prefix.size_bytes, status.st_ino, head, prefix.ending.value)
    except OSError:
        return None


def _head(file: BinaryIO) -> str:
    """The digest of the first record, whole; its wall time makes it this file's own."""
    (length,) = LENGTH.unpack(os.pread(file.fileno(), LENGTH.size, 0))
    return hashlib.sha256(os.pread(file.fileno(), OVERHEAD + length, 0)).hexdigest()


def _stamp(status: os.stat_result) -> List[int]:
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read_index(run_root: str) -> Dict[str, List[Any]]:
    """What `seal_events` wrote; a damaged index is no index."""
    try:
        with open(os.path.join(run_root, INDEX), "rb") as file:
            files = json.load(file)["files"]
        return {name: row for name, row in files.items() if len(row) == 6}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _walk(name: str, folder: str, depth: int) -> Iterator[Tuple[str, str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        below = f"{name}/{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH and entry.name not in SKIPPED:
                yield from _walk(below, entry.path, depth + 1)
        elif MARK in entry.name and entry.is_file(follow_symlinks=False):
            yield below, entry.path


def _sent_with_project(run_root: str) -> FrozenSet[str]:
    """Names under code/ that the laptop sent: old curves of the user's, not this run's."""
    project = os.path.dirname(os.path.dirname(run_root))
    manifest = os.path.join(project, os.path.basename(ProjectLayout("x").manifest))
    try:
        with open(manifest, encoding="utf-8", errors="surrogateescape") as file:
            return frozenset(f"code/{path}" for path in json.load(file)["rows"])
    except (OSError, ValueError, KeyError, TypeError):
        return frozenset()
