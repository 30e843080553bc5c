"""Find the subproject of a file: the part of a repository that is built as a package of its own, with its programs."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from posixpath import basename, dirname

from fixers.plans.owners import Owners
from fixers.sources.copied_libraries import BUILDS


class Subprojects:
    """The folders with a build file in which at least one training program starts, without the project's own folder."""

    def __init__(self, owners: Owners) -> None:
        self.owners = owners

    @cached_property
    def folders(self) -> tuple[str, ...]:
        built = {dirname(path) for path in self.owners.tree.paths() if basename(path) in BUILDS} - {""}
        return tuple(sorted(each for each in built if any(_is_in(one.entry, each) for one in self.owners.programs)))

    def of(self, path: str) -> str:
        """Return the innermost subproject that contains the file, or an empty string."""
        return max((each for each in self.folders if _is_in(path, each)), key=len, default="")

    def of_user(self, path: str, files: Iterable[str]) -> set[str]:
        """Return those of the files that code at `path` may load, because no other subproject contains them."""
        return {each for each in files if not self.of(each) or _is_in(path, self.of(each))}


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
