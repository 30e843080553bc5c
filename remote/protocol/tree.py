"""The sync manifest: the files that were sent, the files on the host, and the fixers that changed them."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, Iterable, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.hidden import Identifier
from remote.protocol.values import Malformed, Verbatim

MANIFEST_VERSION = 1
LARGE_BYTES = 20 * 10**6
"""The size from which a file is not copied into every run. A file of this size that git does not track causes a
warning.
"""
SPARE_BYTES = 16 * 2**20
"""The space that an upload must leave free on the host's disk."""
MASS_DELETE_OVER = 20
FORCE_SYNC = "pipeline run --force sync --until sync"


@dataclass(frozen=True)
class Row:
    """One path of the tree.

    `source` is the digest that the laptop sent, `installed` the digest of the file on the host. They differ only if
    `fixers` (name to version) rewrote the file. `link` is the target of a symlink, or "".
    """

    source: Identifier
    installed: Identifier
    mode: int
    size: int
    link: Verbatim = ""
    fixers: Dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """All files of the tree, by relative POSIX path. Undecodable bytes of a path are surrogates."""

    rows: Dict[str, Row]
    version: int = MANIFEST_VERSION

    def source_digest(self) -> str:
        """Return one digest of the files that the laptop sent. If it is equal on both sides, there is nothing to send.
        Files that a fixer created on the host are not included; their `source` is "".
        """
        return _digest({path: (row.source, row.mode, row.link) for path, row in self.rows.items() if row.source})

    def installed_digest(self) -> str:
        """Return one digest of the files on the host, including changes by fixers."""
        return _digest({path: (row.installed, row.mode, row.link) for path, row in self.rows.items()})


@dataclass(frozen=True)
class Deviation:
    """A path that differs from the manifest: edited, missing, or not a regular file."""

    path: Verbatim
    kind: Identifier
    digest: Identifier = ""


@dataclass(frozen=True)
class TreeSurvey:
    """A summary of the host's tree: both digests of its manifest, and the paths that differ from it.

    `fixed` contains the rows that a fixer changed. `owner` is the laptop and folder that the tree belongs to. `pending`
    is True if a change was interrupted; the next change completes it. `staged` is the number of files that an
    interrupted sync left in the staging folder. `codecs` are the codecs that the host supports, best first.
    """

    exists: bool
    source_digest: Identifier = ""
    installed_digest: Identifier = ""
    files: int = 0
    deviations: Tuple[Deviation, ...] = ()
    fixed: Dict[str, Row] = field(default_factory=dict)
    owner: Optional[Verbatim] = None
    pending: bool = False
    staged: int = 0
    codecs: Tuple[Identifier, ...] = ("zlib",)
    free_bytes: Optional[int] = field(default=None, compare=False)


@dataclass(frozen=True)
class TreeReceived:
    """The answer to a sync: the digests of the files that arrived damaged, or the tree after the sync.

    `edited` contains the paths that were skipped because they were edited on the host. `kept_in` is the folder with
    copies of overwritten edits.
    """

    torn: Tuple[Verbatim, ...]
    survey: Optional[TreeSurvey] = None
    edited: Tuple[Verbatim, ...] = ()
    kept_in: Identifier = ""


@dataclass(frozen=True)
class DataSurvey:
    """The path of the data on the host if it is complete, or the number of bytes of each file that have arrived."""

    path: Identifier
    have: Dict[str, int] = field(default_factory=dict)
    free_bytes: Optional[int] = None


@dataclass(frozen=True)
class DataReceived:
    """The path of the received data, or the names of the files that arrived damaged."""

    path: Identifier
    torn: Tuple[Verbatim, ...]


UPGRADE = "upgrade halfstep on the laptop"
"""The hint of a manifest that a newer version of halfstep wrote."""


class NewerManifest(Malformed):
    """A newer version of halfstep wrote the manifest, so this version must not overwrite it."""


def pack_manifest(manifest: Manifest) -> Dict[str, Any]:
    """Encode a manifest as JSON. Rows are arrays to keep the file small, because there may be 20,000 rows."""
    rows = {path: [r.source, r.installed, r.mode, r.size, r.link, r.fixers] for path, r in manifest.rows.items()}
    return {"version": manifest.version, "rows": rows}


def parse_manifest(data: Any) -> Manifest:
    """Parse the output of `pack_manifest`. Raises Malformed, or NewerManifest for a manifest of a newer halfstep."""
    try:
        version, rows = data["version"], data["rows"]
        if version > MANIFEST_VERSION:
            raise NewerManifest(
                f"manifest version {version} is newer than {MANIFEST_VERSION}, which this halfstep supports"
            )
        return Manifest({path: parse_row(row) for path, row in rows.items()}, version)
    except NewerManifest:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed(f"not a manifest: {error}") from None


def parse_row(row: Any) -> Row:
    """Parse one row. Raises ValueError, TypeError."""
    source, installed, mode, size, link, fixers = row
    shapes = ((source, str), (installed, str), (mode, int), (size, int), (link, str), (fixers, dict))
    if not all(isinstance(value, kind) for value, kind in shapes):
        raise ValueError(f"a row has the wrong shape: {row!r}")
    if min(mode, size) < 0:
        raise ValueError(f"a row has a negative number: {row!r}")
    return Row(source, installed, mode, size, link, fixers)


def judge_deletion(files: Iterable[str], deletes: Iterable[str], data: str = "") -> Optional[Finding]:
    """Return the error `mass-delete` if a sync would delete most of a tree of over MASS_DELETE_OVER files, or None.

    `files` are the paths of the tree. Paths below `data` do not count, because they are sent separately.
    """
    outside = {path for path in files if not data or not f"{path}/".startswith(f"{data}/")}
    tracked, deleted = len(outside), len(outside.intersection(deletes))
    if tracked <= MASS_DELETE_OVER or deleted * 2 <= tracked:
        return None
    return Finding.error(
        "mass-delete",
        f"{deleted} of the {tracked} files on the host would be deleted",
        hint=f"check .gitignore and .pipelineignore; to delete them anyway: {FORCE_SYNC}",
        exit_code=ExitCode.SYNC,
    )


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
