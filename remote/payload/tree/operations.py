"""The operations on a project's tree: survey the tree, send its manifest, receive a sync."""

from __future__ import annotations

import time
import zlib
from typing import Any, Dict, Iterator

from remote.payload.files.atomic import write_atomic
from remote.payload.files.lock import holder
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import check_staged, commit_change, known_manifest
from remote.payload.tree.lock import locked_project, open_project
from remote.payload.tree.plan import plan_commit, refuse_mass_delete
from remote.payload.tree.state import Project
from remote.payload.tree.stream import InputStream, read_index, stage
from remote.payload.tree.survey import owner_of, staged_digests, survey_of, survey_tree
from remote.protocol.blocks import UNPACKERS, BadStream, unpack_blocks
from remote.protocol.exits import ExitCode
from remote.protocol.tree import FORCE_SYNC, pack_manifest
from remote.protocol.values import dumps, encode

SETTLE_POLL_S = 0.02


def tree_survey(call: Call) -> Dict[str, Any]:
    """Return the tree's survey. If another process changes the tree, wait up to `settle_s` seconds first.

    After a connection is cut, the agent of that connection may still receive data for a moment. With `settle_s`, the
    survey includes the contents that the old agent stages, so that they are not sent again.
    """
    project = open_project(call)
    deadline = time.monotonic() + float(call.args.get("settle_s", 0.0))
    while time.monotonic() < deadline and holder(project.at(project.layout.lock)) is not None:
        time.sleep(SETTLE_POLL_S)
    answer: Dict[str, Any] = encode(survey_tree(project.workdir, project.layout.key))
    return answer


def tree_manifest(call: Call) -> Dict[str, Any]:
    """Send the manifest, and the contents that an interrupted sync has staged, as one zlib stream of JSON."""
    project = open_project(call)
    manifest = known_manifest(project)
    value = {**pack_manifest(manifest), "staged": staged_digests(project)}
    call.send(zlib.compress(dumps(value), 1))
    return {"source_digest": manifest.source_digest()}


def tree_receive(call: Call) -> Dict[str, Any]:
    """Make the tree match the laptop's index.

    Paths that were edited on the host are skipped and reported, unless `force` is set.

    If a content arrived damaged, the tree is not changed. The damaged contents are reported. The intact contents stay
    staged for the next request.
    """
    project, force = open_project(call), bool(call.args.get("force"))
    with locked_project(project, call.args.get("owner", "")):
        _check_owner(project, call.args.get("owner", ""), force)
        manifest = known_manifest(project)
        if call.args["base"] != manifest.source_digest():
            raise Refusal(
                "stale-base", "the tree on the host changed since it was surveyed", exit_code=ExitCode.TEMPORARY
            )
        stream = open_input(call)
        index = read_index(stream)
        if not force:
            refuse_mass_delete(manifest, index, str(call.args.get("data", "")))
        staged = stage(project, stream, index.contents, index.needed, index.inodes, call.keep_alive)
        stream.finish()
        checked = check_staged(project, staged.stamps)
        torn = sorted(staged.torn) + checked.torn
        if torn:
            return {"torn": torn}
        commit, edited = plan_commit(project, manifest, index, force)
        after, states = commit_change(project, commit, checked.modes)
        return {
            "torn": [],
            "edited": sorted(edited),
            "kept_in": commit.keep_in if commit.keep else "",
            "survey": encode(survey_of(project, after, states)),
        }


def open_input(call: Call) -> InputStream:
    """Return the unpacked byte stream of the request. Raises Refusal for an unknown codec."""
    codec = call.args.get("codec", "zlib")
    if codec not in UNPACKERS:
        raise Refusal("codec", f"the host cannot unpack {codec!r}", exit_code=ExitCode.BUG)
    return InputStream(_decoded(unpack_blocks(call.chunks(), codec)))


def _decoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except BadStream as error:
        raise Refusal("torn", str(error), exit_code=ExitCode.TEMPORARY) from None


def _check_owner(project: Project, owner: str, force: bool) -> None:
    known = owner_of(project)
    if known is not None and known != owner and not force:
        raise Refusal(
            "owner",
            f"{project.layout.key} belongs to {known}, not to {owner}",
            where=project.root,
            hint=FORCE_SYNC,
            exit_code=ExitCode.SYNC,
        )
    if known != owner:
        write_atomic(project.at(project.layout.owner), dumps({"owner": owner}))
