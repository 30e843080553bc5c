"""Read the ignore files of a walk. Together, they have a limit."""

from __future__ import annotations

from pathlib import Path

from remote.project.ignore import Rules, byte_text, parse_rules
from remote.project.repository import Repository
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
    """Reads the ignore files of one walk: those in the work tree, and those that a whole repository shares."""

    def __init__(self) -> None:
        self._left = MAX_RULES
        self._shared: dict[tuple[Path, bool], tuple[Rules, ...]] = {}

    def read(self, path: Path, folder: str, ignores_case: bool, *, follow: bool = False) -> tuple[Rules, ...]:
        """Return the rules of one ignore file, or () if it is not readable. Raises TooManyRules.

        As in git, a link in the work tree is not followed.
        """
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

    def shared(self, repository: Repository) -> tuple[Rules, ...]:
        """Return the rules that apply to a whole repository, in order of precedence. Raises TooManyRules.

        The user's own file applies to every repository, but is read and counted once.
        """
        case = repository.ignores_case
        for path in repository.exclude_files:
            if (path, case) not in self._shared:
                self._shared[path, case] = self.read(path, "", case, follow=True)
        return tuple(rules for path in repository.exclude_files for rules in self._shared[path, case])
