"""Find notebooks and scripts that start a training program with a dict of arguments, in which bfloat16 is selected.

Such a dict gives its arguments to another process, as the `hyperparameters=` of an estimator or as a list for
`subprocess`. Fixers do not edit it, so the code of the program that it starts must keep bfloat16 too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from posixpath import dirname, join, normpath

from fixers.plans.doubts import Doubt
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import Program
from fixers.sources.by_content import by_content
from fixers.sources.python_text import map_python
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass

STARTED = "{where} starts {program} with bfloat16 in a dict of arguments, which fix does not edit"
NEEDLES = (b"bf16", b"bfloat16")
STARTS_OTHERS = re.compile(
    rb"\bentry_point\b|\bsource_dir\b|\bScriptRunConfig\(|\bPopen\(|\brunpy\b"
    rb"|\bsubprocess\.\w|\bos\.(?:system|popen|exec|spawn|posix_spawn)"
)
"""Matches code that runs a script in another process, or on another machine."""
QUOTE = rb"\\?[\"']"
SELECTS = re.compile(
    rb"^[^#\n]*?(?:" + QUOTE + rb"(?:\w*_)?bf16" + QUOTE + rb"\]?[ \t]*[:=][ \t]*(?:" + QUOTE + rb")?(?:[Tt]rue\b|1\b)"
    rb"|" + QUOTE + rb"\w*(?:dtype|precision)" + QUOTE + rb"\]?[ \t]*[:=][ \t]*" + QUOTE + rb"(?:bf16|bfloat16)\b)",
    re.MULTILINE,
)
"""Matches an entry that selects bfloat16: of a dict, or one that is added to a dict. A notebook escapes quotes."""
COMMENT = re.compile(rb"(?<![\"'\w])#[^\n]*")
FOLDER = re.compile(rb"\bsource_dir" + QUOTE + rb"?[ \t]*[:=][ \t]*" + QUOTE + rb"([\w./-]+)")


@dataclass(frozen=True)
class ArgumentDicts:
    """The notebooks and scripts with such a dict, among the texts of a project."""

    owners: Owners

    def of(self, program: Program) -> Iterator[Doubt]:
        """Yield a doubt for each file that starts the program with such a dict, or if its entry so starts another."""
        for path, code, line in self.starting:
            own = path == program.entry
            if path in program.paths and not own:
                continue
            started = [each for each in self._started_by(path, code) if each.entry != path]
            if started and (own or program in started):
                where = f"{path}:{line}"
                yield Doubt(STARTED.format(where=where, program=(started[0] if own else program).entry), where)

    @cached_property
    def starting(self) -> tuple[tuple[str, bytes, int], ...]:
        """The path and the code of each file without its comments, and the line of the dict's entry."""
        code = ((path, text) for path, text in self.owners.texts if path.endswith(PYTHON))
        texts = ((path, text) for path, text in code if any(each in text for each in NEEDLES))
        return tuple((path, _code_of(path, text), line) for path, text in texts if (line := _line_of_entry(text)))

    def _started_by(self, path: str, code: bytes) -> tuple[Program, ...]:
        """Return the programs that the file starts. A named folder is that of the script."""
        found = self.owners.started_by(path, code) if STARTS_OTHERS.search(code) and SELECTS.search(code) else ()
        folders = {normpath(join(dirname(path), each.decode())) for each in FOLDER.findall(code)}
        return tuple(each for each in found if dirname(each.entry) in folders) or found


def _code_of(path: str, text: bytes) -> bytes:
    with suppress(Unparsable):
        return COMMENT.sub(b"", map_python(path, text).text)
    return b""


@by_content
def _line_of_entry(text: bytes) -> int:
    """Return the line of the first entry that selects bfloat16, in a file that starts others, or 0."""
    if not STARTS_OTHERS.search(text):
        return 0
    found = SELECTS.search(text)
    return line_of(text, found.end()) if found else 0
