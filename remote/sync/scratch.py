"""The project as it would be after the fixers, put into a folder of its own on a host that is only looked at."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from remote.errors import RemoteFault
from remote.host import Host
from remote.project.scan import Scan
from remote.protocol.tree import Manifest, Row, TreeSurvey
from remote.sync.agreed import known_base
from remote.sync.ahead import pack_ahead
from remote.sync.retry import named_fault
from remote.sync.rewrite import Change, sha256
from remote.sync.stream import file_pieces, index_row, pack_head


def send_scratch(
    host: Host,
    scan: Scan,
    tree: TreeSurvey,
    changes: Iterable[Change],
    nonce: str,
    *,
    made_there: Collection[str] = (),
) -> str:
    """The absolute path, there, of the project as it would be; what the host's tree has already is copied there.

    A file that fixers named in `made_there` made on the host is the host's: what they would make is not known here.
    The tree itself is not touched. Remove it with `remove_scratch`, whatever happens in between.
    """
    made = {change.path: change.after for change in changes}
    rows = dict(scan.manifest.rows)
    for path, data in made.items():
        digest = sha256(data)
        mode = rows[path].mode if path in rows else 0o644
        rows[path] = Row(digest, digest, mode, len(data))
    there = _on_host(host, scan, tree)
    kept = {path: row for path, row in _made_there(tree, rows, made_there).items() if there.get(path) == row.source}
    try:
        return _send(host, scan, {**rows, **kept}, made, nonce, there=there)
    except RemoteFault as fault:
        if fault.kind != "incomplete":
            raise named_fault(fault) from None
    return _send(host, scan, rows, made, nonce, there={})


def remove_scratch(host: Host, scan: Scan, nonce: str) -> None:
    """The scratch folder is gone."""
    host.act("scratch.remove", {"project": scan.project, "nonce": nonce})


def _made_there(tree: TreeSurvey, rows: Mapping[str, Row], fixers: Collection[str]) -> dict[str, Row]:
    """Rows of what only those fixers made of files that have not changed here since, or made anew."""
    return {
        path: replace(row, source=row.installed)
        for path, row in tree.fixed.items()
        if row.fixers and set(row.fixers) <= set(fixers) and row.source == (rows[path].source if path in rows else "")
    }


def _on_host(host: Host, scan: Scan, tree: TreeSurvey) -> dict[str, str]:
    """What the host's tree has, path to digest, as far as that is known here without asking."""
    base = known_base(host, scan, tree) or Manifest({})
    gone = {deviation.path for deviation in tree.deviations}
    return {path: row.installed for path, row in {**base.rows, **tree.fixed}.items() if path not in gone}


def _send(
    host: Host, scan: Scan, rows: Mapping[str, Row], made: Mapping[str, bytes], nonce: str, *, there: Mapping[str, str]
) -> str:
    contents = {row.source: path for path, row in rows.items() if not row.link and there.get(path) != row.source}
    index = [index_row(path, row, put=True) for path, row in rows.items()]
    sized = [(digest, rows[path].size) for digest, path in contents.items()]
    head = pack_head({"rows": index, "deletes": [], "contents": sized})
    stream = pack_ahead(_pieces(head, scan.root, contents, rows, made), "zlib", lambda: host.in_flight)
    answer = host.send("tree.scratch", {"project": scan.project, "nonce": nonce, "codec": "zlib"}, stream)
    return str(answer["path"])


def _pieces(
    head: bytes, root: Path, contents: Mapping[str, str], rows: Mapping[str, Row], made: Mapping[str, bytes]
) -> Iterator[tuple[bytes, bool]]:
    yield head, False
    for path in contents.values():
        if path in made:
            yield made[path], False
        else:
            yield from file_pieces(root / path, rows[path].size)
