"""Byte code of the payload's modules, as a .pyc file contains it."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER

# The header of an unchecked hash-based .pyc file: flags 1, and a hash that Python never compares (PEP 552).
HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)


def compile_module(source: bytes, path: str) -> bytes:
    """Return the content of a .pyc file of this version of Python. Tracebacks name `path`. Raises SyntaxError."""
    return HEADER + marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=0))
