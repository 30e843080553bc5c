"""Small JSON files, read as typed values and written atomically."""

from __future__ import annotations

import json
from typing import Any, Optional, Type, TypeVar

from remote.payload.files.atomic import write_atomic
from remote.protocol.regular import open_regular
from remote.protocol.values import Malformed, decode, dumps

T = TypeVar("T")


def read_record(path: str, kind: Type[T]) -> Optional[T]:
    """Read a value of type `kind` from the file. Return None if it is missing, not valid, or no regular file."""
    try:
        with open_regular(path, follow=True) as file:
            return decode(kind, json.loads(file.read().decode("utf-8", "surrogateescape")))
    except (OSError, ValueError, Malformed):
        return None


def write_record(path: str, value: Any, mode: int = 0o644) -> None:
    """Write the value to the file atomically."""
    write_atomic(path, dumps(value) + b"\n", mode)
