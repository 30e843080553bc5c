"""The manifest that laptop and host last agreed on, cached so that a change is sent without an extra exchange."""

from __future__ import annotations

import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

from remote.host import Host
from remote.project.digests import write_state
from remote.project.scan import Scan
from remote.protocol.tree import Manifest, Row, TreeSurvey, parse_manifest


def known_base(host: Host, scan: Scan, tree: TreeSurvey) -> Manifest | None:
    """Return the host's manifest if it is known from the survey and the local cache, else None."""
    if not tree.files or tree.source_digest == Manifest({}).source_digest():
        return Manifest({})
    if tree.source_digest == scan.manifest.source_digest():
        return scan.manifest
    remembered = _read(_path(scan.root, host, scan.project))
    return remembered if remembered is not None and remembered.source_digest() == tree.source_digest else None


def fetch_base(host: Host, scan: Scan) -> tuple[Manifest, dict[str, int]]:
    """Fetch the host's manifest, and digest and size of the contents that an interrupted sync left, in one exchange."""
    data = bytearray()
    host.fetch("tree.manifest", {"project": scan.project}, data.extend)
    value: Any = json.loads(zlib.decompress(bytes(data)).decode("utf-8", "surrogateescape"))
    return parse_manifest(value), {str(digest): int(size) for digest, size in value["staged"].items()}


def remember_agreed(host: Host, scan: Scan) -> None:
    """Cache the scan's manifest as the one that host and laptop agree on."""
    rows = {path: [row.source, row.mode, row.link, row.size] for path, row in scan.manifest.rows.items()}
    path = _path(scan.root, host, scan.project)
    write_state(path.parent, path.name, {"rows": rows})


def _path(root: Path, host: Host, project: str) -> Path:
    words = f"{host.name}\0{host.workdir}\0{project}".encode("utf-8", "surrogateescape")
    return root / ".halfstep" / "agreed" / f"{hashlib.sha256(words).hexdigest()[:16]}.json"


def _read(path: Path) -> Manifest | None:
    try:
        rows = json.loads(path.read_bytes().decode("utf-8", "surrogateescape"))["rows"]
        return Manifest({name: Row(here, here, mode, size, link) for name, (here, mode, link, size) in rows.items()})
    except (OSError, ValueError, KeyError, TypeError):
        return None
