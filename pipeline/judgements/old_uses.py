"""Report uses of libraries that the installed versions reject, before the script fails on them. Pure.

Code in `try`, or in a condition on a version, is left out: it usually handles several versions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from fixers.frame.site import Tree
from fixers.sources.python import PythonSource, read_python
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Report
from remote.protocol.text import version_numbers

NAME = "api-removed-name"
GUARD = re.compile(r"version|TYPE_CHECKING|hasattr|available", re.IGNORECASE)


@dataclass(frozen=True)
class OldUse:
    """A node that an installed version rejects, what is wrong with it, what to write instead, and the check."""

    node: ast.expr | ast.stmt | ast.alias | ast.keyword
    message: str
    instead: str
    check: str = NAME


@dataclass(frozen=True)
class Project:
    """The installed versions by package, and the names of the project's files and folders.

    A package without a version is not judged.
    """

    packages: Mapping[str, str]
    own: Collection[str]

    def lacks(self, package: str, since: tuple[int, ...]) -> str:
        """Return the installed version if it is `since` or newer, else ""."""
        installed = self.packages.get(package, "")
        return installed if installed and version_numbers(installed) >= since else ""


def project_of(tree: Tree, packages: Mapping[str, str]) -> Project:
    return Project(packages, {part.removesuffix(".py") for path in tree.paths() for part in path.split("/")})


def sources_with(needles: Collection[bytes], tree: Tree, paths: Iterable[str]) -> Iterator[PythonSource]:
    """Yield those of the files that contain one of the texts and that parse as Python."""
    for path in sorted(paths):
        data = tree.read(path) if path.endswith(".py") else b""
        if any(needle in data for needle in needles):
            try:
                yield read_python(path, data)
            except Unparsable:
                continue


def judge_uses(sources: Iterable[PythonSource], find: Callable[[PythonSource], Iterable[OldUse]]) -> Report:
    """Return a warning for each use that `find` returns for one of the files, once per file and message."""
    return Report(tuple(finding for source in sources for finding in _judge(source, find(source))))


def _judge(source: PythonSource, uses: Iterable[OldUse]) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for use in uses:
        key = (use.message, use.instead)
        if key not in seen and not _is_guarded(source, use.node):
            seen.add(key)
            yield Finding.warning(use.check, use.message, source.where(use.node), use.instead)


def _is_guarded(source: PythonSource, node: ast.AST) -> bool:
    """Return True in `try`, and in a condition that seems to distinguish versions."""
    for above in source.names.ancestors(node):
        if isinstance(above, ast.Try) and above.handlers:
            return True
        if isinstance(above, ast.If) and GUARD.search(source.segment(above.test)):
            return True
    return False
