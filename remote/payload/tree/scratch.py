"""The project as it would be, in a folder of its own: for a proof on a host whose tree is older, or that has none."""

from __future__ import annotations

import os
import re
import shutil
from typing import Any, Dict, List, Tuple

from remote.payload.files.leftovers import claim, remove, sweep_scratch
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import known_manifest
from remote.payload.tree.lock import open_project
from remote.payload.tree.materialise import copy_one, link_untracked
from remote.payload.tree.operations import open_inflow
from remote.payload.tree.paths import Folders
from remote.payload.tree.state import Project, digest_of_file
from remote.payload.tree.stream import Index, Wanted, check_space, read_index, receive_one
from remote.protocol.exits import ExitCode

CODE = "code"


def tree_scratch(call: Call) -> Dict[str, Any]:
    """scratch/<nonce>/code holds what the index says: contents from the stream, the rest from the tree where it has it.

    What the tree holds beside the project (venv/, data/) is linked. Raises Refusal, `incomplete`, and leaves nothing,
    where a content is neither in the stream nor in the tree.
    """
    project = open_project(call)
    folder = _folder(project, call.args["nonce"])
    if os.path.lexists(folder):
        raise Refusal("exists", f"{folder} is there already", where=folder, exit_code=ExitCode.BUG)
    sweep_scratch(os.path.dirname(folder))
    claim(folder)
    code = os.path.join(folder, CODE)
    os.makedirs(folder, mode=0o700)
    os.mkdir(code)
    try:
        inflow = open_inflow(call)
        index = read_index(inflow)
        need = sum(wanted.size for wanted in index.wanted)
        check_space(folder, need, index.inodes)
        sources = {digest: path for path, digest in _receive(code, inflow, index)}
        inflow.finish()
        for wanted in index.wanted:
            _place(project, code, wanted, sources)
        link_untracked(project.tree, known_manifest(project), code)
    except BaseException:
        remove(folder)
        _prune(project)
        raise
    return {"path": code}


def scratch_remove(call: Call) -> Dict[str, Any]:
    """scratch/<nonce> is gone, and so are the folders above it that hold nothing else."""
    project = open_project(call)
    folder = _folder(project, call.args["nonce"])
    remove(folder)
    _prune(project)
    return {"left": os.path.lexists(folder)}


def _folder(project: Project, nonce: str) -> str:
    if not isinstance(nonce, str) or not re.fullmatch(r"[A-Za-z0-9_-]{4,64}", nonce):
        raise Refusal("bad-nonce", f"{nonce!r} is not the name of a scratch folder", exit_code=ExitCode.BUG)
    return os.path.join(project.at(project.layout.scratch), nonce)


def _receive(code: str, inflow: Any, index: Index) -> List[Tuple[str, str]]:
    first = {wanted.digest: wanted.path for wanted in reversed(index.wanted) if not wanted.link}
    folders = Folders(code)
    received = []
    for digest, size in index.contents:
        path = first[digest]
        folders.make_parents(path)
        if receive_one(folders.file(path), inflow, digest, size) is None:
            raise Refusal("torn", f"{path!r} changed while it was sent", where=path, exit_code=ExitCode.TEMPORARY)
        received.append((path, digest))
    return received


def _place(project: Project, code: str, wanted: Wanted, sources: Dict[str, str]) -> None:
    folders = Folders(code)
    folders.make_parents(wanted.path)
    place = folders.file(wanted.path)
    if wanted.link:
        os.symlink(wanted.link, place)
        return
    if wanted.digest in sources:
        if sources[wanted.digest] != wanted.path:
            shutil.copyfile(folders.file(sources[wanted.digest]), place)
    else:
        if not Folders(project.tree).leads_outside(wanted.path):
            copy_one(os.path.join(project.tree, wanted.path), place)
        if not os.path.isfile(place) or os.path.islink(place) or digest_of_file(place) != wanted.digest:
            raise Refusal(
                "incomplete", f"the tree has no {wanted.path!r} as it should be", exit_code=ExitCode.TEMPORARY
            )
    os.chmod(place, wanted.mode)


def _prune(project: Project) -> None:
    for folder in (project.at(project.layout.scratch), project.root, os.path.dirname(project.root), project.workdir):
        try:
            os.rmdir(folder)
        except OSError:
            return
