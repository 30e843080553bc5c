"""Small typed JSON files of a run: read as values, written whole."""

from __future__ import annotations

import json
from typing import Any, Optional, Type, TypeVar

from remote.payload.files.atomic import write_whole
from remote.protocol.values import Malformed, decode, dumps

T = TypeVar("T")


def read_record(path: str, kind: Type[T]) -> Optional[T]:
    """The value in that file; None where there is none or it is not whole."""
    try:
        with open(path, "rb") as file:
            return decode(kind, json.loads(file.read().decode("utf-8", "surrogateescape")))
    except (OSError, ValueError, Malformed):
        return None


def write_record(path: str, value: Any, mode: int = 0o644) -> None:
    """The file holds that value, whole."""
    write_whole(path, dumps(value) + b"\n", mode)
