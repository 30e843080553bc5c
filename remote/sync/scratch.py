"""A temporary copy of the project on a host, with the changes of fixers. The host's tree is not changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from remote.errors import RemoteFault
from remote.host import Host, read_field
from remote.project.scan import Scan
from remote.protocol.hidden import Identifier
from remote.protocol.tree import Manifest, Row, TreeSurvey
from remote.sync.agreed import known_host_manifest
from remote.sync.background_packing import pack_in_background
from remote.sync.retry import error_of_fault
from remote.sync.rewrite import Change, sha256
from remote.sync.stream import Opened, file_pieces, index_row, pack_head


def send_scratch(
    host: Host,
    scan: Scan,
    tree: TreeSurvey,
    changes: Iterable[Change],
    nonce: str,
    *,
    host_fixers: Collection[str] = (),
) -> str:
    """Create the project with `changes` applied, and return its absolute path on the host.

    Contents that exist in the host's tree are copied on the host. A file that the fixers in `host_fixers` wrote on the
    host is taken from the tree, since its content is not known locally. The tree itself is not changed. The caller must
    remove the copy with `remove_scratch`, also after an error.
    """
    made = {change.path: change.after for change in changes}
    rows = dict(scan.manifest.rows)
    for path, data in made.items():
        digest = sha256(data)
        mode = rows[path].mode if path in rows else 0o644
        rows[path] = Row(digest, digest, mode, len(data))
    installed = _on_host(host, scan, tree)
    kept = {path: row for path, row in _host_made(tree, rows, host_fixers).items() if installed.get(path) == row.source}
    try:
        return _send(host, scan, {**rows, **kept}, made, nonce, installed=installed)
    except RemoteFault as fault:
        if fault.kind != "incomplete":
            raise error_of_fault(fault) from None
    return _send(host, scan, rows, made, nonce, installed={})


def remove_scratch(host: Host, scan: Scan, nonce: str) -> None:
    host.act("scratch.remove", {"project": scan.project, "nonce": nonce})


def _host_made(tree: TreeSurvey, rows: Mapping[str, Row], fixers: Collection[str]) -> dict[str, Row]:
    """Return the rows of files that were changed only by `fixers`, and have not changed locally since then."""
    return {
        path: replace(row, source=row.installed)
        for path, row in tree.fixed.items()
        if row.fixers and set(row.fixers) <= set(fixers) and row.source == (rows[path].source if path in rows else "")
    }


def _on_host(host: Host, scan: Scan, tree: TreeSurvey) -> dict[str, str]:
    """Map the paths of the host's tree to their digests, as far as they are known without a request to the host."""
    base = known_host_manifest(host, scan, tree) or Manifest({})
    missing = {deviation.path for deviation in tree.deviations}
    return {path: row.installed for path, row in {**base.rows, **tree.fixed}.items() if path not in missing}


def _send(
    host: Host,
    scan: Scan,
    rows: Mapping[str, Row],
    made: Mapping[str, bytes],
    nonce: str,
    *,
    installed: Mapping[str, str],
) -> str:
    contents = {row.source: path for path, row in rows.items() if not row.link and installed.get(path) != row.source}
    index = [index_row(path, row, put=True) for path, row in rows.items()]
    sized = [(digest, rows[path].size) for digest, path in contents.items()]
    head = pack_head({"rows": index, "deletes": [], "contents": sized})
    stream = pack_in_background(_pieces(head, scan.opened, contents, rows, made), "zlib", lambda: host.in_flight)
    answer = host.send("tree.scratch", {"project": scan.project, "nonce": nonce, "codec": "zlib"}, stream)
    return read_field(Identifier, host, answer, "path")


def _pieces(
    head: bytes, opened: Opened, contents: Mapping[str, str], rows: Mapping[str, Row], made: Mapping[str, bytes]
) -> Iterator[tuple[bytes, bool]]:
    yield head, False
    for path in contents.values():
        if path in made:
            yield made[path], False
        else:
            yield from file_pieces(partial(opened, path), rows[path].size)
