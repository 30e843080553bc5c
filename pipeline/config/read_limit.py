"""Limit the number of configs and host files that a command reads when it has to read all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.config.document import LIMITS
from pipeline.config.find import is_shipped_config, is_shipped_host

MOST_FILES = 500
MOST_BYTES = 2**20
"""The maximum total size of the files. Parsing this many bytes of very short values takes about 3 s."""
NOT_READ = f"not read: at most {MOST_FILES} files and {MOST_BYTES >> 20} MiB are read"


def beyond_limit(paths: Iterable[Path]) -> frozenset[Path]:
    """Return the project's files after the first `MOST_FILES` files or `MOST_BYTES` bytes.

    Files that come with halfstep are not counted, and neither are the bytes of a file that is too large for a config,
    because no command parses it.
    """
    beyond, count, total = set(), 0, 0
    for path in paths:
        if is_shipped_config(path) or is_shipped_host(path):
            continue
        size = _size_of(path)
        if count < MOST_FILES and total + size <= MOST_BYTES:
            count, total = count + 1, total + size
        else:
            beyond.add(path)
    return frozenset(beyond)


def _size_of(path: Path) -> int:
    try:
        size = path.stat().st_size
    except OSError:
        return 0
    return size if size <= LIMITS.bytes else 0
