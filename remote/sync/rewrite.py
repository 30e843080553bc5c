"""Rewrite files of the host's tree. The new contents are computed locally and written on the host atomically."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from remote.errors import RemoteFault
from remote.host import Host, read_field
from remote.project.scan import Scan
from remote.protocol.blocks import pack_blocks
from remote.protocol.dataclass import dataclass
from remote.protocol.tree import TreeSurvey
from remote.sync.retry import error_of_fault
from remote.sync.stream import pack_head


class Change(Protocol):
    """A fixer's change of one file."""

    @property
    def path(self) -> str: ...

    @property
    def before(self) -> bytes: ...

    @property
    def after(self) -> bytes: ...

    @property
    def fixers(self) -> Mapping[str, int]: ...


@dataclass(frozen=True)
class Rewrite:
    """New contents for one file of the host's tree. `before` is the digest of the original, or "" for a new file."""

    path: str
    before: str
    after: bytes
    fixers: Mapping[str, int]


def plan_rewrites(
    scan: Scan, tree: TreeSurvey, changes: Iterable[Change], host_fixers: Collection[str] = ()
) -> tuple[Rewrite, ...]:
    """Return the rewrites that turn the host's tree into the scanned project with `changes` applied.

    A file that was rewritten earlier and is not in `changes` is restored to the content that was sent. Files that the
    fixers in `host_fixers` wrote on the host are kept, because their content is not known locally.
    """
    rewrites = []
    changed = {change.path: change for change in changes}
    for path, change in changed.items():
        row = tree.fixed.get(path)
        if row is None or row.installed != sha256(change.after) or dict(row.fixers) != dict(change.fixers):
            before = sha256(change.before) if path in scan.manifest.rows else ""
            rewrites.append(Rewrite(path, before, change.after, dict(change.fixers)))
    for path, row in tree.fixed.items():
        if row.fixers and set(row.fixers) <= set(host_fixers):
            continue
        if path not in changed and path in scan.manifest.rows and scan.manifest.rows[path].source == row.source:
            rewrites.append(Rewrite(path, row.source, scan.read(path), {}))
    return tuple(rewrites)


def rewrite_tree(host: Host, scan: Scan, rewrites: Sequence[Rewrite]) -> TreeSurvey:
    """Apply all rewrites or none, and return the tree's survey. Raises RemoteFault if a file has changed."""
    head = {
        "changes": [[r.path, r.before, sha256(r.after), len(r.after), dict(r.fixers)] for r in rewrites],
        "contents": [[digest, len(data)] for digest, data in _contents(rewrites).items()],
    }
    args = {"project": scan.project, "owner": scan.owner, "codec": "zlib"}
    try:
        answer = host.send("tree.rewrite", args, pack_blocks(_pieces(head, rewrites), "zlib"))
    except RemoteFault as fault:
        raise error_of_fault(fault) from None
    return read_field(TreeSurvey, host, answer, "survey")


def undo_rewrites(host: Host, scan: Scan, paths: Sequence[str] | None = None) -> TreeSurvey:
    """Restore the sent content of `paths`, or of all files if `paths` is None, and return the tree's survey."""
    args = {"project": scan.project, "owner": scan.owner, "paths": None if paths is None else list(paths)}
    try:
        answer = host.act("tree.undo", args)
    except RemoteFault as fault:
        raise error_of_fault(fault) from None
    return read_field(TreeSurvey, host, answer, "survey")


def _contents(rewrites: Sequence[Rewrite]) -> dict[str, bytes]:
    return {sha256(rewrite.after): rewrite.after for rewrite in rewrites}


def _pieces(head: object, rewrites: Sequence[Rewrite]) -> Iterator[tuple[bytes, bool]]:
    yield pack_head(head), False
    for data in _contents(rewrites).values():
        yield data, False


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
