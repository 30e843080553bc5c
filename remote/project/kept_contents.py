"""Contents of a project's small files, which are kept in memory so that an edit during a run changes nothing."""

from __future__ import annotations

LARGEST = 2**20
MOST = 64 * 2**20


class KeptContents:
    """Contents of files by digest: files of at most 1 MiB, and at most 64 MiB together."""

    def __init__(self) -> None:
        self._known: dict[str, bytes] = {}
        self._room = MOST

    def find(self, digest: str) -> bytes | None:
        return self._known.get(digest)

    def keep(self, digest: str, data: bytes) -> None:
        """Keep the content, unless the file is too large or the limit is reached."""
        if digest not in self._known and len(data) <= min(LARGEST, self._room):
            self._known[digest] = data
            self._room -= len(data)
