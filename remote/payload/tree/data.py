"""Large data as it arrives: file by file into a folder that gets its name, the manifest's digest, when all is there."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from remote.payload.files.atomic import PART, sync_folder
from remote.payload.files.lock import Held, take_lock
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.lock import open_project
from remote.payload.tree.operations import Heart, open_inflow
from remote.payload.tree.paths import Folders, check_path
from remote.payload.tree.state import Project
from remote.payload.tree.stream import Inflow, check_space, checked_digest, disk_error, read_head
from remote.protocol.exits import ExitCode

PARTIAL = ".partial"
CHUNK = 2**20


@dataclass(frozen=True)
class Coming:
    """One file: its name, digest and size, and how many of its bytes are here already."""

    name: str
    digest: str
    size: int
    offset: int


def data_survey(call: Call) -> Dict[str, Any]:
    """Where the data lies whole, or how many bytes of each file an earlier, cut upload left."""
    whole = _whole(open_project(call), call.args["digest"])
    if os.path.isdir(whole):
        return {"path": whole, "have": {}}
    partial, have = whole + PARTIAL, {}
    for folder, _, names in os.walk(partial):
        for name in names:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            if stat.S_ISREG(status.st_mode):
                inside = os.path.relpath(
                    os.path.join(folder, name[len(PART) :] if name.startswith(PART) else name), partial
                )
                have[inside] = status.st_size
    return {"path": "", "have": have}


def data_receive(call: Call) -> Dict[str, Any]:
    """The data lies whole under its digest, or the names of torn files are told and the rest is kept."""
    project = open_project(call)
    whole = _whole(project, call.args["digest"])
    os.makedirs(os.path.dirname(whole), exist_ok=True)
    try:
        with take_lock(whole + ".lock", "sending data"):
            torn = _receive(call, whole)
    except Held:
        raise Refusal("busy", "this data is being sent already", where=whole, exit_code=ExitCode.BUSY) from None
    return {"path": "" if torn else whole, "torn": torn}


def _whole(project: Project, digest: str) -> str:
    return os.path.join(project.at(project.layout.data), checked_digest(digest))


def _receive(call: Call, whole: str) -> List[str]:
    inflow = open_inflow(call)
    files = _parse(read_head(inflow))
    if os.path.isdir(whole):
        inflow.finish()
        return []
    partial = Folders(whole + PARTIAL)
    os.makedirs(partial.root, exist_ok=True)
    need = sum(coming.size - coming.offset for coming in files)
    check_space(partial.root, need, len(files))
    heart = Heart(call)
    try:
        torn = [coming.name for coming in files if not _take(partial, inflow, coming, heart)]
    except OSError as error:
        raise disk_error(partial.root, error, need) from None
    inflow.finish()
    if not torn:
        sync_folder(partial.root)
        os.rename(partial.root, whole)
        sync_folder(os.path.dirname(whole))
    return torn


def _parse(data: Any) -> Tuple[Coming, ...]:
    try:
        return tuple(
            Coming(check_path(name), checked_digest(digest), int(size), int(offset))
            for name, digest, size, offset in data["files"]
        )
    except (ValueError, KeyError, TypeError) as error:
        raise Refusal("bad-index", f"not a list of data: {error}", exit_code=ExitCode.BUG) from None


def _take(partial: Folders, inflow: Inflow, coming: Coming, heart: Heart) -> bool:
    """The file is whole under its name; False, and nothing of it kept, where its digest is another."""
    done = partial.file(coming.name)
    partial.make_parents(coming.name)
    if os.path.isfile(done) and coming.offset == coming.size == os.path.getsize(done):
        return True
    folder, name = os.path.split(done)
    part = os.path.join(folder, PART + name)
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.ftruncate(descriptor, min(coming.offset, os.fstat(descriptor).st_size))
        digest = hashlib.sha256()
        have = 0
        while chunk := os.read(descriptor, CHUNK):
            digest.update(chunk)
            have += len(chunk)
            heart.alive()
        left = coming.size - coming.offset
        while left:
            piece = inflow.some(left)
            left -= len(piece)
            digest.update(piece)
            heart.alive()
            while piece:
                piece = piece[os.write(descriptor, piece) :]
        if have != coming.offset or digest.hexdigest() != coming.digest:
            os.unlink(part)
            return False
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.rename(part, done)
    return True
