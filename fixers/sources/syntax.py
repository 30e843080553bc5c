"""Parse Python of foreign projects within limits of size and depth."""

from __future__ import annotations

import ast
import warnings

LARGEST_BYTES = 2 * 2**20
"""A syntax tree needs up to 600 times the memory of its source."""


def parse_python(source: bytes | str) -> ast.Module:
    """Return the syntax tree. Raises SyntaxError for invalid Python, and for code that is too large or too deep."""
    if len(source) > LARGEST_BYTES:
        raise SyntaxError(f"{len(source)} bytes of Python: too large to be a source file")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(str(error) or type(error).__name__) from None
