"""Rewrites of the tree's files by fixers, and their undo."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Set, Tuple

from remote.payload.files.atomic import write_atomic
from remote.payload.processes.identity import boot_id
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.payload.tree.commit import check_staged, commit_change, known_manifest
from remote.payload.tree.lock import locked_project, open_project
from remote.payload.tree.operations import open_input
from remote.payload.tree.paths import check_path
from remote.payload.tree.state import Commit, Project, matches, read_state, read_stats
from remote.payload.tree.stream import checked_digest, parse_contents, read_head, stage
from remote.payload.tree.survey import survey_of
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.tree import Manifest, Row
from remote.protocol.values import encode

ORIGINALS = "tree"


@dataclass(frozen=True)
class Change:
    """New contents of one path. `before` is the digest of the old contents, or "" for a new file."""

    path: str
    before: str
    after: str
    size: int
    fixers: Dict[str, int]


def tree_rewrite(call: Call) -> Dict[str, Any]:
    """Rewrite every file of the stream, atomically. The bytes that the laptop sent are kept for undo."""
    project = open_project(call)
    with locked_project(project, call.args.get("owner", "")):
        stream = open_input(call)
        data = read_head(stream)
        try:
            changes = [_parse_change(row) for row in data["changes"]]
            contents = parse_contents(data["contents"])
        except (ValueError, KeyError, TypeError) as error:
            raise Refusal("bad-index", f"not an index: {error}", exit_code=ExitCode.BUG) from None
        staged = stage(project, stream, contents, {c.after for c in changes}, 2 * len(changes), call.keep_alive)
        stream.finish()
        checked = check_staged(project, staged.stamps)
        if staged.torn or checked.torn:
            raise Refusal("torn", "a rewritten file arrived damaged", exit_code=ExitCode.TEMPORARY)
        manifest = known_manifest(project)
        commit = _plan(project, manifest, changes)
        _keep_originals(project, commit)
        after, states = commit_change(project, commit, checked.modes)
        _drop_originals(project, after)
        return {"survey": encode(survey_of(project, after, states))}


def tree_undo(call: Call) -> Dict[str, Any]:
    """Restore the named files as the laptop sent them, and delete files that a fixer created.

    Without names, restore all rewritten files.

    Files that a fixer replaced on the host itself are restored by `fix.undo`.
    """
    project = open_project(call)
    with locked_project(project, call.args.get("owner", "")):
        manifest = known_manifest(project)
        named = call.args.get("paths")
        fixed = {p: row for p, row in manifest.rows.items() if row.fixers and _is_selected(project, p, row, named)}
        _refuse_edited(project, fixed)
        after: Dict[str, Row] = {}
        for path, row in fixed.items():
            if row.source:
                kept = _original(project, row.source)
                if not os.path.exists(kept):
                    raise Refusal(
                        "no-original",
                        f"the original of {path!r} is no longer kept",
                        where=kept,
                        hint="pipeline run --force sync",
                        exit_code=ExitCode.FIXER,
                    )
                with open(kept, "rb") as file:
                    data = file.read()
                write_atomic(os.path.join(project.staging, row.source), data)
                after[path] = Row(row.source, row.source, row.mode, len(data))
        done, states = commit_change(project, Commit(fixed, after, tuple(after)), {})
        _drop_originals(project, done)
        return {"restored": sorted(fixed), "survey": encode(survey_of(project, done, states))}


def _is_selected(project: Project, path: str, row: Row, named: Optional[List[str]]) -> bool:
    if named is not None:
        return path in named
    return not row.source or os.path.exists(_original(project, row.source))


def _parse_change(row: List[Any]) -> Change:
    path, before, after, size, fixers = row
    if not isinstance(fixers, dict):
        raise ValueError(f"{fixers!r} is not a mapping of fixers")
    return Change(check_path(path), checked_digest(before) if before else "", checked_digest(after), int(size), fixers)


def _plan(project: Project, manifest: Manifest, changes: List[Change]) -> Commit:
    before = {change.path: manifest.rows[change.path] for change in changes if change.path in manifest.rows}
    _refuse_edited(project, before)
    after: Dict[str, Row] = {}
    for change in changes:
        old = before.get(change.path)
        if old is None:
            if change.before or os.path.lexists(os.path.join(project.tree, change.path)):
                raise _stale(change.path)
            after[change.path] = Row("", change.after, 0o644, change.size, "", change.fixers)
        elif old.link or change.before not in {old.source, old.installed}:
            raise _stale(change.path)
        else:
            after[change.path] = Row(old.source, change.after, old.mode, change.size, "", change.fixers)
    puts = tuple(path for path, row in after.items() if path not in before or before[path].installed != row.installed)
    return Commit(before, after, puts)


def _refuse_edited(project: Project, rows: Dict[str, Row]) -> None:
    stats, boot = read_stats(project), boot_id()
    for path, row in rows.items():
        if not matches(row, read_state(project.tree, path, stats, boot)):
            raise Refusal(
                "edited-on-host",
                f"{path!r} was edited on the host; nothing was rewritten",
                where=path,
                hint="pipeline run --force sync",
                exit_code=ExitCode.FIXER,
            )


def _stale(path: str) -> Refusal:
    return Refusal(
        "changed",
        f"{path!r} changed on the host after the fix was planned; nothing was rewritten",
        where=path,
        hint="run the command again",
        exit_code=ExitCode.FIXER,
    )


def _original(project: Project, digest: str) -> str:
    return os.path.join(project.at(project.layout.undo), ORIGINALS, digest)


def _keep_originals(project: Project, commit: Commit) -> None:
    """Keep the content that the laptop sent of each file that is rewritten for the first time."""
    for path, row in commit.before.items():
        kept = _original(project, row.source)
        if row.source == row.installed and commit.after[path].installed != row.source and not os.path.exists(kept):
            with open(os.path.join(project.tree, path), "rb") as file:
                write_atomic(kept, file.read())


def _drop_originals(project: Project, manifest: Manifest) -> None:
    """Remove the originals of files that are no longer rewritten."""
    needed: Set[str] = {row.source for row in manifest.rows.values() if row.fixers}
    folder = os.path.dirname(_original(project, "x"))
    names: Tuple[str, ...] = tuple(os.listdir(folder)) if os.path.isdir(folder) else ()
    for name in names:
        if name not in needed:
            os.unlink(os.path.join(folder, name))
