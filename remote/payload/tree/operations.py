"""The operations on a project's tree: look at it, receive a sync, apply fixes, take them back."""

from __future__ import annotations

import os
import time
import zlib
from typing import Any, Dict, Iterator, List, Set, Tuple

from remote.payload.files.atomic import write_whole
from remote.payload.files.lock import holder
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import commit_change, known_manifest, look_again
from remote.payload.tree.lock import held_project, open_project
from remote.payload.tree.paths import Folders, Ways
from remote.payload.tree.state import MISSING, Commit, Project, boot_id, is_as, lying, read_stats
from remote.payload.tree.stream import Index, Inflow, Wanted, read_index, stage
from remote.payload.tree.survey import owner_of, staged_digests, survey_of, survey_tree
from remote.protocol.blocks import UNPACKERS, BadStream, unpack_blocks
from remote.protocol.exits import ExitCode
from remote.protocol.tree import FORCE_SYNC, Manifest, Row, judge_deletion, pack_manifest
from remote.protocol.values import dumps, encode

ALIVE_EVERY_S = 5.0
SETTLE_EVERY_S = 0.02


def tree_survey(call: Call) -> Dict[str, Any]:
    """The tree's survey alone; up to `settle_s` later where somebody is changing it now.

    An agent whose line was cut needs a moment to see it. What it has staged by then need not be sent again.
    """
    project = open_project(call)
    deadline = time.monotonic() + float(call.args.get("settle_s", 0.0))
    while time.monotonic() < deadline and holder(project.at(project.layout.lock)) is not None:
        time.sleep(SETTLE_EVERY_S)
    answer: Dict[str, Any] = encode(survey_tree(project.workdir, project.layout.key))
    return answer


def tree_manifest(call: Call) -> Dict[str, Any]:
    """The manifest and the contents a cut sync left, as one zlib stream of JSON."""
    project = open_project(call)
    manifest = known_manifest(project)
    value = {**pack_manifest(manifest), "staged": staged_digests(project)}
    call.give(zlib.compress(dumps(value), 1))
    return {"source_digest": manifest.source_digest()}


def tree_receive(call: Call) -> Dict[str, Any]:
    """The tree is as the laptop's index says, save paths edited here (told, left alone) unless forced.

    Nothing is placed where a content was torn; those are named and the rest is kept for the next stream.
    """
    project, force = open_project(call), bool(call.args.get("force"))
    os.makedirs(project.root, exist_ok=True)
    with held_project(project, call.args.get("owner", "")):
        _check_owner(project, call.args.get("owner", ""), force)
        manifest = known_manifest(project)
        if call.args["base"] != manifest.source_digest():
            raise Refusal("stale-base", "the host's tree is not the one that was assumed", exit_code=ExitCode.TEMPORARY)
        inflow = open_inflow(call)
        index = read_index(inflow)
        _guard(manifest, index, force)
        staged = stage(project, inflow, index.contents, index.needed, index.inodes, Heart(call).alive)
        inflow.finish()
        sound = look_again(project, staged.looks)
        torn = sorted(staged.torn) + sound.torn
        if torn:
            return {"torn": torn}
        commit, edited = _plan(project, manifest, index, force)
        after, seen = commit_change(project, commit, sound.modes)
        return {
            "torn": [],
            "edited": sorted(edited),
            "kept_in": commit.keep_in if commit.keep else "",
            "survey": encode(survey_of(project, after, seen)),
        }


def open_inflow(call: Call) -> Inflow:
    """The bytes of the stream that came with the call, unpacked."""
    codec = call.args.get("codec", "zlib")
    if codec not in UNPACKERS:
        raise Refusal("codec", f"no codec {codec!r} here", exit_code=ExitCode.BUG)
    return Inflow(_told(unpack_blocks(call.chunks(), codec)))


def _told(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except BadStream as error:
        raise Refusal("torn", str(error), exit_code=ExitCode.TEMPORARY) from None


class Heart:
    """Says that we are alive while a long act sends nothing else."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._last = time.monotonic()

    def alive(self) -> None:
        if time.monotonic() - self._last > ALIVE_EVERY_S:
            self._call.push({})
            self._last = time.monotonic()


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
        write_whole(project.at(project.layout.owner), dumps({"owner": owner}))


def _guard(manifest: Manifest, index: Index, force: bool) -> None:
    tracked, going = len(manifest.rows), sum(path in manifest.rows for path in index.deletes)
    found = None if force else judge_deletion(tracked, going)
    if found is not None:
        raise Refusal(found.check, found.message, hint=found.hint, exit_code=found.exit_code)


def _plan(project: Project, manifest: Manifest, index: Index, force: bool) -> Tuple[Commit, Set[str]]:
    """The commit of an index against what lies here now, and the paths left alone because they were edited here."""
    stats, boot, folders = read_stats(project), boot_id(), Folders(project.tree)
    before: Dict[str, Row] = {}
    after: Dict[str, Row] = {}
    puts: List[str] = []
    edited: Set[str] = set()
    deletes = {path for path in index.deletes if path in manifest.rows}
    for path in deletes:
        found = lying(project.tree, path, stats, boot)
        if found.kind != "missing" and not found.damaged and not is_as(manifest.rows[path], found):
            edited.add(path)
        before[path] = manifest.rows[path]
    ways = Ways(folders, deletes - edited)
    for wanted in index.wanted:
        path, old = wanted.path, manifest.rows.get(wanted.path)
        row = _row(wanted, old)
        found = lying(project.tree, path, stats, boot) if ways.has_folder_of(path) else MISSING
        fine = found.kind == "missing" or found.damaged or is_as(row, found) or (old is not None and is_as(old, found))
        if wanted.put and not fine and not _only_holds(folders.file(path), path, deletes):
            edited.add(path)
        blocker = ways.blocked_by(path)
        if blocker:
            edited |= {path, blocker}
        if old is not None:
            before[path] = old
        after[path] = row
        if wanted.put:
            puts.append(path)
    if force and edited:
        keep_in = f"{project.layout.undo}/edited-{time.time_ns()}"
        return Commit(before, after, tuple(puts), tuple(sorted(edited)), keep_in), set()
    return Commit(
        {path: row for path, row in before.items() if path not in edited},
        {path: row for path, row in after.items() if path not in edited},
        tuple(path for path in puts if path not in edited),
    ), edited


def _row(wanted: Wanted, old: Any) -> Row:
    if wanted.put or old is None:
        return Row(wanted.digest, wanted.digest, wanted.mode, wanted.size, wanted.link)
    return Row(old.source, old.installed, wanted.mode, old.size, old.link, old.fixers)


def _only_holds(folder: str, path: str, deletes: Set[str]) -> bool:
    """A folder stands where a file shall be, and nothing in it stays."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return False
    for parent, _, names in os.walk(folder):
        inside = os.path.relpath(parent, folder)
        prefix = path if inside == "." else f"{path}/{inside}"
        if any(f"{prefix}/{name}" not in deletes for name in names):
            return False
    return True
