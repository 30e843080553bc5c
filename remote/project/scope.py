"""The repository that contains a folder of a project, and what its index tracks."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property

from remote.project.git_index import IndexMemory
from remote.project.repository import Repository
from remote.protocol.dataclass import dataclass, field


@dataclass(frozen=True)
class Scope:
    """The repository that contains a folder, or None, and their relative position.

    `inside` is the path of a nested repository, relative to the root of the walk. `above` is the path of the root of
    the walk, relative to a surrounding repository. Both are "" or end with a slash. Paths are relative to the root of
    the walk. The paths of the index stay relative to the repository: with `inside` before each path, they could take a
    thousand times as much memory.
    """

    repository: Repository | None = None
    inside: str = ""
    above: str = ""
    ignores_case: bool = False
    memory: IndexMemory = field(default_factory=IndexMemory)

    def in_repository(self, path: str) -> str:
        """Return the path, relative to the repository."""
        return self.above + path[len(self.inside) :]

    def is_tracked(self, path: str) -> bool:
        """Return True if the index contains the file or submodule."""
        return self._key(path) in self._keys

    def holds_tracked(self, folder: str) -> bool:
        """Return True if the index contains a file in or below the folder."""
        return self.count_tracked(folder) > 0

    def count_tracked(self, folder: str) -> int:
        """Return the number of files in or below the folder that the index contains."""
        key = self._key(folder)
        return bisect_left(self._sorted, f"{key}{chr(ord('/') + 1)}") - bisect_left(self._sorted, f"{key}/")

    def _key(self, path: str) -> str:
        own = self.in_repository(path)
        return own.lower() if self.ignores_case else own

    @cached_property
    def _keys(self) -> frozenset[str]:
        if self.repository is None:
            return frozenset()
        paths = self.repository.tracked_paths(self.memory)
        if self.above:
            paths = frozenset(path for path in paths if path.startswith(self.above))
        return frozenset(map(str.lower, paths)) if self.ignores_case else paths

    @cached_property
    def _sorted(self) -> list[str]:
        """All keys in order. Folders are found by bisection: a set of all folders could be a thousand times larger."""
        return sorted(self._keys)
