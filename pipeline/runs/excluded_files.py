"""Select the project files that are not inputs of a run: by default documentation, images, tests and log files."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from hashlib import sha256

from fixers.sources.by_content import by_content
from remote.project.ignore import Rules, byte_text, parse_rules

AUTO = "auto"
SEPARATORS = (b",", b"[", b"{")
MOST_VALUES = 1_000_000
"""A parsed notebook with this number of values takes about 200 MB of memory."""
DOCUMENTATION = ("*.md", "*.rst", "docs/", "LICENSE*", "NOTICE*", "CITATION*", ".github/", ".vscode/", ".idea/")
IMAGES = ("*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp", "*.pdf")
TESTS = ("tests/", "**/test/**/*.py", "test_*.py", "*_test.py", "conftest.py")
LOGS = ("*.log", "nohup.out")
"""Excluded unless git tracks them: the shell writes such a file if output is redirected into the project."""
READ_BY_TRAINING = ("!**/data/**", "!**/dataset*/**", "!**/prompt*/**", "!**/template*/**")
"""Folders whose documentation and images a training script probably reads."""
AUTO_PATTERNS = (*DOCUMENTATION, *IMAGES, *TESTS, *LOGS, *READ_BY_TRAINING)


def patterns_of(exclude: Iterable[str]) -> tuple[str, ...]:
    """Return the gitignore patterns of `inputs.exclude`, with `auto` replaced by the default patterns."""
    return tuple(pattern for one in exclude for pattern in (AUTO_PATTERNS if one == AUTO else (one,)))


@lru_cache(maxsize=8)
def excluded_files(
    paths: tuple[str, ...],
    exclude: tuple[str, ...],
    command: tuple[str, ...],
    untracked: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return the paths that are not inputs of a run. `untracked` are the files that git does not track.

    A file or folder that the command names is an input. If the command names a file in an excluded folder, all files of
    that folder are inputs, because a script may read files that are next to it.
    """
    patterns = patterns_of(exclude)
    rules = _rules(patterns)
    of_tracked = _rules(pattern for pattern in patterns if pattern not in LOGS or pattern in exclude)
    excluded = {path for path in paths if _is_excluded(rules if path in untracked else of_tracked, path)}
    named = frozenset(_named(command, excluded))
    return frozenset(path for path in excluded if not _is_in(path, named))


def _rules(patterns: Iterable[str]) -> Rules:
    return parse_rules("\n".join(patterns).encode("utf-8", "surrogateescape"))


def _is_excluded(rules: Rules, path: str) -> bool:
    """Match the path as git does: a negated pattern cannot include a file in an excluded folder."""
    parts = byte_text(path).split("/")
    for end in range(1, len(parts)):
        if rules.verdict("/".join(parts[:end]), parts[end - 1], True):
            return True
    return bool(rules.verdict("/".join(parts), parts[-1], False))


def _named(command: Sequence[str], excluded: Collection[str]) -> Iterator[str]:
    """Yield the files and folders in the command. For each excluded file, also yield the file's folder."""
    for word in command:
        for name in (word.rpartition("=")[2], word.replace(".", "/") + ".py"):
            path = posixpath.normpath(name) if name else "."
            if path == ".":
                continue
            yield path
            if path in excluded and "/" in path:
                yield posixpath.dirname(path)


def _is_in(path: str, named: Collection[str]) -> bool:
    """Return True if the path or one of its parent folders is named."""
    while path and path not in named:
        path = path.rpartition("/")[0]
    return bool(path)


@by_content
def code_digest(notebook: bytes) -> str:
    """Return a digest of a notebook's code cells, or "" if the bytes are not a notebook, or have too many values."""
    if sum(map(notebook.count, SEPARATORS)) > MOST_VALUES:
        return ""
    try:
        cells = json.loads(notebook)["cells"]
        code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
        joined = ["".join(source) if isinstance(source, list) else str(source) for source in code]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    return sha256(json.dumps(joined).encode()).hexdigest()
