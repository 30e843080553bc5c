"""Shells, and the files that they read as scripts. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from posixpath import basename, join, normpath

SHELLS = frozenset({"sh", "bash", "zsh", "dash", "ksh"})
READERS = SHELLS | {".", "source", "sbatch", "qsub", "bsub"}
"""Commands that read a shell script, whatever the ending of its name."""
ENDINGS = (
    *(".sh", ".bash", ".zsh", ".ksh"),
    *(".slurm", ".sbatch", ".slrm", ".sl", ".sb", ".batch", ".job", ".pbs", ".qsub", ".lsf"),
)
SHEBANG = re.compile(rb"#![^\n]{0,80}\b(?:ba|z|da|k)?sh\b")
TEXT_FOLLOWS = re.compile(r"-\w*c")
"""Matches an option of a shell after which the script itself follows, as in `bash -lc "..."`."""


def is_shell(path: str) -> bool:
    """Return True if the ending of the path is that of a shell script."""
    return path.lower().endswith(ENDINGS)


def script_read(words: Iterable[str], known: Collection[str], folders: Iterable[str] = ("",)) -> str:
    """Return the file that a shell, `source` or `sbatch` in the words reads as its script, whatever its ending.

    It is the first of the known files, relative to one of the folders. Return "" if there is none.
    """
    reads = False
    for word in words:
        if basename(word) in READERS:
            reads = True
        elif reads and TEXT_FOLLOWS.fullmatch(word):
            return ""
        elif reads:
            for path in (normpath(join(folder, word)) for folder in folders):
                if path in known:
                    return "" if path.endswith(".py") else path
    return ""
