"""Find the files that shell scripts name. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import cached_property
from itertools import takewhile
from posixpath import dirname, join, normpath

from fixers.sources.launched import OUTSIDE


class NamedFiles:
    """Finds known files by the ends of their paths. The time of many searches grows with the number of names and files.

    Therefore each file is returned only once.
    """

    def __init__(self, known: Iterable[str]) -> None:
        self.known = frozenset(known)
        self._returned: set[str] = set()
        self._is_end: dict[str, bool] = {}

    def new(self, name: str, path: str) -> list[str] | None:
        """Return the files that `name`, as written in the file at `path`, may mean. Return None if there are none.

        These are the files with this name in the folder of the text and in that of the project. Unless both exist, the
        files whose paths end in the name count too. Files that were returned before are left out.
        """
        places = {normpath(name), normpath(join(dirname(path), name))}
        found = self._not_returned(places & self.known)
        if places <= self.known:
            return found
        end = normpath(OUTSIDE.sub("", name))
        if end not in self._is_end:
            ending = self._ending_in(end)
            self._is_end[end] = bool(ending)
            found += self._not_returned(ending)
        return found if self._is_end[end] or places & self.known else None

    def _not_returned(self, files: Iterable[str]) -> list[str]:
        fresh = sorted({*files} - self._returned)
        self._returned.update(fresh)
        return fresh

    def _ending_in(self, end: str) -> list[str]:
        key = f"/{end}"[::-1]
        numbers = range(bisect_left(self._reversed, key), len(self._reversed))
        after = (self._reversed[number] for number in numbers)
        return [each[-2::-1] for each in takewhile(lambda each: each.startswith(key), after)]

    @cached_property
    def _reversed(self) -> list[str]:
        """The paths, with a slash before each of them, from the last to the first letter: equal ends are neighbours."""
        return sorted(f"/{each}"[::-1] for each in self.known)
