"""Read the ignore files of a walk. Together, they have a limit."""

from __future__ import annotations

from pathlib import Path

from remote.project.git_index import IndexMemory
from remote.project.ignore import Rules, byte_text, parse_rules
from remote.project.repository import Repository, repository_at
from remote.project.scope import Scope
from remote.protocol.regular import open_regular

MAX_RULES = 2**20
"""The maximum size of all ignore files of a walk, in bytes. Matching one name with their patterns takes up to 50 ms.

In memory, a pattern may be a hundred times larger.
"""


class TooManyRules(Exception):
    """The ignore files of a walk have more than MAX_RULES bytes."""

    def __init__(self) -> None:
        super().__init__(f"the ignore files have more than {MAX_RULES // 2**20} MiB")


class RuleFiles:
    """Reads the ignore files of one walk: those in the work tree, and those that a whole repository shares.

    If `keeps` is True, each file is read and counted once, and its rules stay in memory.
    """

    def __init__(self, *, keeps: bool = False) -> None:
        self._left = MAX_RULES
        self._shared: dict[tuple[Path, bool], tuple[Rules, ...]] = {}
        self._kept: dict[tuple[Path, str, bool], tuple[Rules, ...]] | None = {} if keeps else None
        self._scopes: dict[Path, Scope | None] = {}

    def read(self, path: Path, folder: str, ignores_case: bool, *, follow: bool = False) -> tuple[Rules, ...]:
        """Return the rules of one ignore file, or () if it is not readable. Raises TooManyRules.

        As in git, a link in the work tree is not followed.
        """
        place = (path, folder, ignores_case)
        if self._kept is None:
            return self._read(*place, follow=follow)
        if place not in self._kept:
            self._kept[place] = self._read(*place, follow=follow)
        return self._kept[place]

    def _read(self, path: Path, folder: str, ignores_case: bool, *, follow: bool) -> tuple[Rules, ...]:
        if self._left < 0:
            raise TooManyRules
        try:
            with open_regular(path, follow=follow) as file:
                data = file.read(self._left + 1) or b""
        except OSError:
            return ()
        self._left -= len(data)
        if self._left < 0:
            raise TooManyRules
        rules = parse_rules(data, byte_text(folder), ignores_case=ignores_case)
        return (rules,) if rules.patterns else ()

    def nested(self, folder: Path, inside: str, memory: IndexMemory) -> Scope | None:
        """Return the scope of the repository whose work tree is `folder`, or None. Its index is read once."""
        if folder not in self._scopes:
            found = repository_at(folder)
            case = found is not None and found.ignores_case
            self._scopes[folder] = Scope(found, inside, ignores_case=case, memory=memory) if found else None
        return self._scopes[folder]

    def shared(self, repository: Repository) -> tuple[Rules, ...]:
        """Return the rules that apply to a whole repository, in order of precedence. Raises TooManyRules.

        The user's own file applies to every repository, but is read and counted once.
        """
        case = repository.ignores_case
        for path in repository.exclude_files:
            if (path, case) not in self._shared:
                self._shared[path, case] = self.read(path, "", case, follow=True)
        return tuple(rules for path in repository.exclude_files for rules in self._shared[path, case])
