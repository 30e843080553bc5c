"""The sync manifest: what was sent, what lies on the host, and which fixers made the difference."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from remote.protocol.values import dumps

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class Row:
    """One path of the tree. `here`: digest of what the laptop sent; `there`: digest of what lies on the host.

    They differ only where `fixers` (name to version) rewrote the file. `link` is a symlink's target instead of bytes.
    """

    here: str
    there: str
    mode: int
    size: int
    link: str = ""
    fixers: Dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Manifest:
    """Every path we put on the host, by its POSIX name relative to the tree (undecodable bytes as surrogates)."""

    rows: Dict[str, Row]
    version: int = MANIFEST_VERSION

    def digest_here(self) -> str:
        """One digest over what the laptop sent: equal on both sides means nothing to send."""
        return _digest({path: (row.here, row.mode, row.link) for path, row in self.rows.items()})

    def digest_there(self) -> str:
        """One digest over what lies on the host, fixers included."""
        return _digest({path: (row.there, row.mode, row.link) for path, row in self.rows.items()})


@dataclass(frozen=True)
class Deviation:
    """A path whose bytes on the host are not what the manifest says: edited, missing, or not a regular file."""

    path: str
    kind: str
    digest: str = ""


@dataclass(frozen=True)
class TreeSurvey:
    """The host's tree in a few words: both digests of its manifest, and where the bytes disagree with it."""

    exists: bool
    digest_here: str = ""
    digest_there: str = ""
    files: int = 0
    deviations: Tuple[Deviation, ...] = ()
    fixed: Dict[str, Row] = field(default_factory=dict)
    owner: Optional[str] = None


def _digest(value: object) -> str:
    return hashlib.sha256(dumps(value)).hexdigest()
