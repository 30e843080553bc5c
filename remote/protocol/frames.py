"""The frames between laptop and payload, after the payload's greeting.

A login shell may print anything before the first frame. The payload's hello line, with a nonce, marks the end of that
output. A frame consists of a type (1 byte), the length of its body (4 bytes, big-endian), and the body. J: one JSON
object.   B: a chunk of a byte stream.   E: the end of a byte stream.
"""

from __future__ import annotations

import json
import re
import struct
from enum import Enum
from typing import Any, Callable, Dict, Tuple

from remote.protocol.values import dumps

HEADER = struct.Struct(">cI")
MAX_JSON = 16 * 2**20
MAX_VALUES = 10**6
"""The maximum number of JSON values in a frame. A million empty lists take 70 MiB of memory."""
MAX_CHUNK = 2**20
SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


class FrameKind(bytes, Enum):
    """The type byte of a frame."""

    JSON = b"J"
    BYTES = b"B"
    END = b"E"


class BadFrame(ValueError):
    """The data is not a valid frame: noise on the connection, a truncated stream, or an object over the limit."""


def hello(nonce: str) -> bytes:
    """Return the line that ends the output of a login shell."""
    return b"\x02HS" + nonce.encode("ascii") + b"\x03\n"


def pack(kind: FrameKind, body: bytes = b"") -> bytes:
    """Encode one frame."""
    return HEADER.pack(kind.value, len(body)) + body


def pack_json(value: Any) -> bytes:
    """Encode one JSON frame. Raises BadFrame if the value takes more than 16 MiB."""
    body = dumps(value)
    if len(body) > MAX_JSON:
        raise BadFrame(f"an answer of {len(body)} bytes is over the limit of {MAX_JSON}")
    return pack(FrameKind.JSON, body)


def read_frame(read_exactly: Callable[[int], bytes]) -> Tuple[FrameKind, bytes]:
    """Read the next frame. `read_exactly(n)` returns n bytes or raises EOFError. Raises BadFrame."""
    kind_byte, length = HEADER.unpack(read_exactly(HEADER.size))
    try:
        kind = FrameKind(kind_byte)
    except ValueError:
        raise BadFrame(f"byte {kind_byte!r} is not the start of a frame") from None
    limit = MAX_JSON if kind is FrameKind.JSON else MAX_CHUNK
    if length > limit:
        raise BadFrame(f"a frame of {length} bytes is over the limit of {limit}")
    return kind, read_exactly(length) if length else b""


def parse_json(body: bytes) -> Dict[str, Any]:
    """Parse a JSON frame. `dumps` can encode every string in the result. Raises BadFrame."""
    value = parse_value(body)
    if not isinstance(value, dict):
        raise BadFrame(f"expected an object, got {type(value).__name__}")
    return value


def parse_value(body: bytes) -> Any:
    """Parse received JSON. Raises BadFrame if it is invalid, nested too deeply, or has too many values."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise BadFrame(f"JSON of more than {MAX_VALUES} values")
    try:
        value = json.loads(body.decode("utf-8", "surrogateescape"))
        # Frames of halfstep contain no escaped surrogates, because `dumps` does not escape text.
        if SURROGATE_ESCAPE.search(body):
            dumps(value)
    except UnicodeEncodeError as error:
        raise BadFrame(f"a text with a lone surrogate: {error.reason}") from None
    except ValueError as error:
        raise BadFrame(f"not JSON: {error}") from None
    except RecursionError:
        raise BadFrame("JSON nested too deeply") from None
    return value
