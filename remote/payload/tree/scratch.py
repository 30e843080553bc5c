"""A scratch copy of the laptop's project, for a proof before any sync."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any, Dict, List, Tuple

from remote.payload.files.leftovers import mark_owner, remove, sweep_scratch
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import known_manifest
from remote.payload.tree.lock import ensure_private, open_project
from remote.payload.tree.materialise import copy_one, link_untracked
from remote.payload.tree.operations import open_input
from remote.payload.tree.paths import Folders
from remote.payload.tree.state import Project, digest_of_file
from remote.payload.tree.stream import Index, IndexEntry, InputStream, check_space, read_index, receive_one
from remote.protocol.exits import ExitCode

CODE = "code"


def tree_scratch(call: Call) -> Dict[str, Any]:
    """Build scratch/<nonce>/code from the index: files of the stream, and copies of files of the tree.

    Everything else in the tree (venv/, data/) is linked. If the content of a file is neither in the stream nor in the
    tree, removes the scratch copy and raises Refusal `incomplete`.
    """
    project = open_project(call)
    folder = _folder(project, call.args["nonce"])
    if os.path.lexists(folder):
        raise Refusal("exists", f"{folder} exists already", where=folder, exit_code=ExitCode.BUG)
    sweep_scratch(os.path.dirname(folder))
    ensure_private(project)
    mark_owner(folder)
    code = os.path.join(folder, CODE)
    os.makedirs(folder, mode=0o700)
    os.mkdir(code)
    try:
        stream = open_input(call)
        index = read_index(stream)
        need = sum(entry.size for entry in index.entries)
        check_space(folder, need, index.inodes)
        sources = {digest: path for path, digest in _receive(code, stream, index)}
        stream.finish()
        for entry in index.entries:
            _place(project, code, entry, sources)
        link_untracked(project.tree, known_manifest(project), code)
    except BaseException:
        remove(folder)
        _prune(project)
        raise
    return {"path": code}


def scratch_remove(call: Call) -> Dict[str, Any]:
    """Remove scratch/<nonce>, and each parent folder that is empty afterwards."""
    project = open_project(call)
    folder = _folder(project, call.args["nonce"])
    remove(folder)
    _prune(project)
    return {"left": os.path.lexists(folder)}


def _folder(project: Project, nonce: str) -> str:
    if not isinstance(nonce, str) or not re.fullmatch(r"[A-Za-z0-9_-]{4,64}", nonce):
        raise Refusal("bad-nonce", f"{nonce!r} is not the name of a scratch folder", exit_code=ExitCode.BUG)
    return os.path.join(project.at(project.layout.scratch), nonce)


def _receive(code: str, stream: InputStream, index: Index) -> List[Tuple[str, str]]:
    first = {entry.digest: entry.path for entry in reversed(index.entries) if not entry.link}
    folders = Folders(code)
    received = []
    for digest, size in index.contents:
        path = first[digest]
        folders.make_parents(path)
        if receive_one(folders.file(path), stream, digest, size) is None:
            raise Refusal("torn", f"{path!r} changed while it was being sent", where=path, exit_code=ExitCode.TEMPORARY)
        received.append((path, digest))
    return received


def _place(project: Project, code: str, entry: IndexEntry, sources: Dict[str, str]) -> None:
    folders = Folders(code)
    folders.make_parents(entry.path)
    target = folders.file(entry.path)
    if entry.link:
        os.symlink(entry.link, target)
        return
    if entry.digest in sources:
        if sources[entry.digest] != entry.path:
            shutil.copyfile(folders.file(sources[entry.digest]), target)
    else:
        if not Folders(project.tree).leads_outside(entry.path):
            copy_one(os.path.join(project.tree, entry.path), target)
        if not os.path.isfile(target) or os.path.islink(target) or digest_of_file(target) != entry.digest:
            raise Refusal(
                "incomplete", f"the tree lacks the expected content of {entry.path!r}", exit_code=ExitCode.TEMPORARY
            )
    os.chmod(target, entry.mode)


def _prune(project: Project) -> None:
    for folder in (project.at(project.layout.scratch), project.root, os.path.dirname(project.root), project.workdir):
        try:
            os.rmdir(folder)
        except OSError:
            return
