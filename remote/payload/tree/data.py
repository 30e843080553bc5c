"""Receive large data file by file into a partial folder. The complete folder is renamed to the digest of the data."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import Any, Dict, List, Tuple

from remote.payload.files.atomic import PART, sync_folder
from remote.payload.files.lock import Held, take_lock
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.lock import ensure_private, open_project
from remote.payload.tree.operations import open_input
from remote.payload.tree.paths import Folders, check_path
from remote.payload.tree.state import Project
from remote.payload.tree.stream import InputStream, check_space, checked_digest, disk_error, read_head
from remote.payload.tree.survey import free_bytes
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.tree import DataSurvey
from remote.protocol.values import encode

PARTIAL = ".partial"
CHUNK = 2**20


@dataclass(frozen=True)
class IncomingFile:
    """One file: its name, digest and size, and how many bytes of it are on the host from an interrupted upload."""

    name: str
    digest: str
    size: int
    offset: int


def data_survey(call: Call) -> Dict[str, Any]:
    """Return the path of the data if it is complete, otherwise how many bytes of each file are on the host."""
    complete = _complete_path(open_project(call), call.args["digest"])
    if os.path.isdir(complete):
        return _encoded(DataSurvey(complete))
    partial, have = complete + PARTIAL, {}
    for folder, _, names in os.walk(partial):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                inside = os.path.relpath(
                    os.path.join(folder, name[len(PART) :] if name.startswith(PART) else name), partial
                )
                have[inside] = status.st_size
    return _encoded(DataSurvey("", have, free_bytes(call.workdir)))


def _encoded(survey: DataSurvey) -> Dict[str, Any]:
    answer: Dict[str, Any] = encode(survey)
    return answer


def data_receive(call: Call) -> Dict[str, Any]:
    """Receive the data.

    Return the path of the data, or the names of damaged files. Intact files are kept for the next upload.
    """
    project = open_project(call)
    complete = _complete_path(project, call.args["digest"])
    ensure_private(project)
    os.makedirs(os.path.dirname(complete), exist_ok=True)
    try:
        with take_lock(complete + ".lock", "sending data"):
            torn = _receive(call, complete)
    except Held:
        raise Refusal("busy", "another process is sending this data", where=complete, exit_code=ExitCode.BUSY) from None
    return {"path": "" if torn else complete, "torn": torn}


def _complete_path(project: Project, digest: str) -> str:
    return os.path.join(project.at(project.layout.data), checked_digest(digest))


def _receive(call: Call, complete: str) -> List[str]:
    stream = open_input(call)
    files = _parse(read_head(stream))
    if os.path.isdir(complete):
        stream.finish()
        return []
    partial = Folders(complete + PARTIAL)
    os.makedirs(partial.root, exist_ok=True)
    need = sum(incoming.size - incoming.offset for incoming in files)
    check_space(partial.root, need, len(files))
    try:
        torn = [incoming.name for incoming in files if not _receive_file(call, partial, stream, incoming)]
    except OSError as error:
        raise disk_error(partial.root, error, need) from None
    stream.finish()
    if not torn:
        sync_folder(partial.root)
        os.rename(partial.root, complete)
        sync_folder(os.path.dirname(complete))
    return torn


def _parse(data: Any) -> Tuple[IncomingFile, ...]:
    try:
        return tuple(
            IncomingFile(check_path(name), checked_digest(digest), int(size), int(offset))
            for name, digest, size, offset in data["files"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal("bad-index", f"not an index of data: {error}", exit_code=ExitCode.BUG) from None


def _receive_file(call: Call, partial: Folders, stream: InputStream, incoming: IncomingFile) -> bool:
    """Receive one file, or the rest of it. If its digest does not match, remove the file and return False."""
    done = partial.file(incoming.name)
    partial.make_parents(incoming.name)
    if os.path.isfile(done) and incoming.offset == incoming.size == os.path.getsize(done):
        return True
    folder, name = os.path.split(done)
    part = os.path.join(folder, PART + name)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, min(incoming.offset, os.fstat(descriptor).st_size))
        digest = hashlib.sha256()
        have = 0
        while chunk := os.read(descriptor, CHUNK):
            digest.update(chunk)
            have += len(chunk)
            call.keep_alive()
        left = incoming.size - incoming.offset
        while left:
            piece = stream.read_some(left)
            left -= len(piece)
            digest.update(piece)
            call.keep_alive()
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        if have != incoming.offset or digest.hexdigest() != incoming.digest:
            os.unlink(part)
            return False
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(part, done)
    return True
