"""The manifest of the last sync, cached on the laptop so that a change is sent without an extra round trip."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from remote.errors import RemoteFault
from remote.host import Host, decode_answer, garbled
from remote.project.digests import read_json, write_state
from remote.project.records_folder import RECORDS_FOLDER, find_link
from remote.project.scan import Scan
from remote.protocol.exits import ExitCode
from remote.protocol.frames import BadFrame, parse_value
from remote.protocol.layout import ProjectLayout
from remote.protocol.text import first_line
from remote.protocol.tree import UPGRADE, Manifest, NewerManifest, Row, TreeSurvey, parse_manifest
from remote.protocol.values import Malformed

MAX_MANIFEST = 24 * 2**20
"""The maximum size of a manifest, which allows a hundred thousand files."""


def known_host_manifest(host: Host, scan: Scan, tree: TreeSurvey) -> Manifest | None:
    """Return the host's manifest if it is empty, equal to the local manifest or equal to the cached one, else None."""
    if not tree.files or tree.source_digest == Manifest({}).source_digest():
        return Manifest({})
    if tree.source_digest == scan.manifest.source_digest():
        return scan.manifest
    remembered = _read(_path(scan.root, host, scan.project))
    return remembered if remembered is not None and remembered.source_digest() == tree.source_digest else None


def fetch_host_manifest(host: Host, scan: Scan) -> tuple[Manifest, dict[str, int]]:
    """Fetch the host's manifest, and the files that an interrupted sync left: their sizes in bytes, by digest.

    Raises RemoteFault with the kind `newer` if a newer version of halfstep wrote the manifest, or Garbled.
    """
    data = bytearray()
    host.fetch("tree.manifest", {"project": scan.project}, data.extend, limit=MAX_MANIFEST)
    try:
        value = parse_value(_unpacked(bytes(data)))
        return parse_manifest(value), decode_answer(dict[str, int], value["staged"])
    except NewerManifest as error:
        raise RemoteFault(
            f"{scan.project}: {first_line(str(error))}",
            kind="newer",
            where=f"{host.workdir}/{ProjectLayout(scan.project).manifest}",
            hint=UPGRADE,
            exit_code=ExitCode.USAGE,
        ) from None
    except (BadFrame, Malformed, KeyError) as error:
        raise garbled(host.name, f"a malformed manifest: {error}") from None


def _unpacked(data: bytes) -> bytes:
    """Decompress a manifest. Raises BadFrame."""
    inflate = zlib.decompressobj()
    try:
        text = inflate.decompress(data, MAX_MANIFEST)
    except zlib.error as error:
        raise BadFrame(str(error)) from None
    if not inflate.eof:
        raise BadFrame(f"incomplete, or of more than {MAX_MANIFEST} bytes")
    return text


def cache_host_manifest(host: Host, scan: Scan) -> None:
    """Cache the scan's manifest as the manifest that the host has."""
    rows = {path: [row.source, row.mode, row.link, row.size] for path, row in scan.manifest.rows.items()}
    path = _path(scan.root, host, scan.project)
    write_state(path.parent, path.name, {"rows": rows})


def _path(root: Path, host: Host, project: str) -> Path:
    key = f"{host.name}\0{host.workdir}\0{project}".encode("utf-8", "surrogateescape")
    return root / RECORDS_FOLDER / "agreed" / f"{hashlib.sha256(key).hexdigest()[:16]}.json"


def _read(path: Path) -> Manifest | None:
    if find_link(path) is not None:
        return None
    try:
        rows = read_json(path, is_cache=True)["rows"]
        return Manifest(
            {name: Row(source, source, mode, size, link) for name, (source, mode, link, size) in rows.items()}
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
