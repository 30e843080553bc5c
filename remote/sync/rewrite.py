"""Fixed files on their way to the host: computed here from what was sent, applied there all together."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remote.errors import RemoteFault
from remote.host import Host, read_answer
from remote.project.scan import Scan
from remote.protocol.blocks import pack_blocks
from remote.protocol.tree import TreeSurvey
from remote.sync.retry import named_fault
from remote.sync.stream import pack_head


class Change(Protocol):
    """What a fixer makes of one file."""

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
    """One file of the host's tree as it shall be. `before`: digest it was made from, empty for a new file."""

    path: str
    before: str
    after: bytes
    fixers: Mapping[str, int]


def plan_rewrites(
    scan: Scan, tree: TreeSurvey, changes: Iterable[Change], made_there: Collection[str] = ()
) -> tuple[Rewrite, ...]:
    """What must change on the host so that its tree is what the fixers make of the scanned one.

    A file that was rewritten before and that no fixer asks to change now goes back to what was sent, unless it was
    made on the host by fixers named in `made_there`: what they would make of it is not known here.
    """
    rewrites = []
    wanted = {change.path: change for change in changes}
    for path, change in wanted.items():
        there = tree.fixed.get(path)
        if there is None or there.installed != sha256(change.after) or dict(there.fixers) != dict(change.fixers):
            before = sha256(change.before) if path in scan.manifest.rows else ""
            rewrites.append(Rewrite(path, before, change.after, dict(change.fixers)))
    for path, row in tree.fixed.items():
        if row.fixers and set(row.fixers) <= set(made_there):
            continue
        if path not in wanted and path in scan.manifest.rows and scan.manifest.rows[path].source == row.source:
            rewrites.append(Rewrite(path, row.source, scan.read(path), {}))
    return tuple(rewrites)


def rewrite_tree(host: Host, scan: Scan, rewrites: Sequence[Rewrite]) -> TreeSurvey:
    """The host's tree after every rewrite. Raises RemoteFault, nothing rewritten, where a file there is another."""
    head = {
        "changes": [[r.path, r.before, sha256(r.after), len(r.after), dict(r.fixers)] for r in rewrites],
        "contents": [[digest, len(data)] for digest, data in _contents(rewrites).items()],
    }
    args = {"project": scan.project, "owner": scan.owner, "codec": "zlib"}
    try:
        answer = host.send("tree.rewrite", args, pack_blocks(_pieces(head, rewrites), "zlib"))
    except RemoteFault as fault:
        raise named_fault(fault) from None
    return read_answer(TreeSurvey, host, answer["survey"])


def undo_rewrites(host: Host, scan: Scan, paths: Sequence[str] | None = None) -> TreeSurvey:
    """The host's tree with the named files (all, where None) as they were sent."""
    args = {"project": scan.project, "owner": scan.owner, "paths": None if paths is None else list(paths)}
    try:
        answer = host.act("tree.undo", args)
    except RemoteFault as fault:
        raise named_fault(fault) from None
    return read_answer(TreeSurvey, host, answer["survey"])


def _contents(rewrites: Sequence[Rewrite]) -> dict[str, bytes]:
    return {sha256(rewrite.after): rewrite.after for rewrite in rewrites}


def _pieces(head: object, rewrites: Sequence[Rewrite]) -> Iterator[tuple[bytes, bool]]:
    yield pack_head(head), False
    for data in _contents(rewrites).values():
        yield data, False


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
