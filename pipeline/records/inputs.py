"""The type of the inputs of a stage or run, and the digest of a value."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from remote.protocol.values import dumps

Inputs = Mapping[str, str]


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    return hashlib.sha256(dumps(value)).hexdigest()
