"""What a piece of work depends on, by name as short words; and one digest of any value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from remote.protocol.values import dumps

Inputs = Mapping[str, str]


def digest(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(dumps(value)).hexdigest()
