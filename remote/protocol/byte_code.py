"""Byte code of the payload's modules, as a .pyc file contains it."""

from __future__ import annotations

import marshal
from importlib.util import MAGIC_NUMBER
from types import CodeType

# The header of an unchecked hash-based .pyc file: flags 1, and a hash that Python never compares (PEP 552).
HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)


def compile_module(source: bytes, path: str) -> bytes:
    """Return the content of a .pyc file of this version of Python. Tracebacks name `path`. Raises SyntaxError."""
    return HEADER + marshal.dumps(compile(source, path, "exec", dont_inherit=True, optimize=0))


def rename_module(data: bytes, path: str) -> bytes:
    """Return the byte code of `compile_module` for another path of the source."""
    return HEADER + marshal.dumps(_rename(marshal.loads(data[len(HEADER) :]), path))


def _rename(code: CodeType, path: str) -> CodeType:
    constants = tuple(_rename(one, path) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=path, co_consts=constants)
