"""Ignore rules with the exact semantics of gitignore(5): nested ignore files, negation, and the order of patterns.

Callers match every entry while they walk the tree, and do not enter ignored folders, as git does. Combinations such as
`*`, `!*/`, `!*.py` require this order of matching. As in git, patterns match bytes: paths and patterns are compared as
Latin-1 text of their UTF-8 bytes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cached_property

from remote.project.automaton import ANY, FOLDERS, SLASH, Globs, Piece
from remote.protocol.dataclass import dataclass

WILD = frozenset("*?[\\")
MAX_PATTERN = 4096
"""The maximum length of a line, in bytes. Longer lines are ignored: no path is longer, and compiling them is slow."""


@dataclass(frozen=True)
class Pattern:
    """One line of an ignore file.

    If `name_only` is True, the pattern has no slash, and matches the last component of a path.
    """

    glob: str
    negated: bool
    folders_only: bool
    name_only: bool


class _Matcher:
    """Finds the last matching pattern. Literal names and `*suffix`, which are the most common, need no automaton."""

    def __init__(self, patterns: Iterable[tuple[int, Pattern]], ignores_case: bool) -> None:
        self.names: dict[str, int] = {}
        self.paths: dict[str, int] = {}
        self.suffixes: list[tuple[str, int]] = []
        for_names: list[tuple[int, list[Piece]]] = []
        for_paths: list[tuple[int, list[Piece]]] = []
        for at, pattern in patterns:
            glob = pattern.glob
            if not WILD.intersection(glob):
                (self.names if pattern.name_only else self.paths)[_lower(glob) if ignores_case else glob] = at
            elif pattern.name_only and glob[0] == "*" and not WILD.intersection(glob[1:]):
                self.suffixes.append((_lower(glob[1:]) if ignores_case else glob[1:], at))
            elif (pieces := _translate(glob, ignores_case)) is not None:
                (for_names if pattern.name_only else for_paths).append((at, pieces))
        self.for_names, self.for_paths = Globs(for_names), Globs(for_paths)
        self.endings = tuple(suffix for suffix, _ in self.suffixes)
        self.fold = _lower if ignores_case else str

    def last_match(self, path: str, name: str) -> int:
        """Return the position of the last pattern that matches, or -1.

        `path` is relative to the ignore file's folder.
        """
        folded = self.fold(name)
        last = self.names.get(folded, -1)
        if self.paths:
            last = max(last, self.paths.get(self.fold(path), -1))
        if folded.endswith(self.endings):
            last = max(last, *(at for suffix, at in self.suffixes if folded.endswith(suffix)))
        return max(last, self.for_names.last_match(name), self.for_paths.last_match(path))


@dataclass(frozen=True)
class Rules:
    """One ignore file. `folder` is its folder in POSIX form with a trailing slash, or "" for the top."""

    folder: str
    patterns: tuple[Pattern, ...]
    ignores_case: bool = False

    @cached_property
    def _for_folders(self) -> _Matcher:
        return _Matcher(enumerate(self.patterns), self.ignores_case)

    @cached_property
    def _for_files(self) -> _Matcher:
        numbered = ((at, pattern) for at, pattern in enumerate(self.patterns) if not pattern.folders_only)
        return _Matcher(numbered, self.ignores_case)

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """Return True if the path is ignored, False if a negation includes it, and None if no pattern matches.

        `path` and `name` are results of `byte_text`.
        """
        last = self.last_match(path, name, is_folder)
        return None if last is None else not last.negated

    def last_match(self, path: str, name: str, is_folder: bool) -> Pattern | None:
        """Return the pattern that decides about the path, or None if no pattern matches."""
        matcher = self._for_folders if is_folder else self._for_files
        last = matcher.last_match(path[len(self.folder) :], name)
        return None if last < 0 else self.patterns[last]


def byte_text(text: str) -> str:
    """Return the text's bytes as Latin-1, one character for each byte."""
    return text if text.isascii() else os.fsencode(text).decode("latin-1")


def parse_rules(data: bytes, folder: str = "", *, ignores_case: bool = False) -> Rules:
    """Parse one ignore file. `folder` is a result of `byte_text`."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    patterns = (_parse_line(line) for line in lines if len(line) <= MAX_PATTERN)
    return Rules(folder, tuple(pattern for pattern in patterns if pattern is not None), ignores_case)


def verdict_of(rules: Iterable[Rules], path: str, name: str, is_folder: bool) -> bool | None:
    """Return the first verdict of `rules` that is not None, else None. The rules of the innermost folder come first."""
    for one in rules:
        verdict = one.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return None


def _lower(text: str) -> str:
    """Convert only ASCII letters to lower case, as git does."""
    return text.lower() if text.isascii() else text.encode("latin-1").lower().decode("latin-1")


def _parse_line(line: str) -> Pattern | None:
    line = _strip_trailing(line.removesuffix("\r").partition("\0")[0])
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/") if folders_only else line
    name_only = "/" not in line
    glob = line.removeprefix("/")
    return Pattern(glob, negated, folders_only, name_only) if glob else None


def _strip_trailing(line: str) -> str:
    """Remove trailing spaces, which are not part of a pattern unless a backslash precedes them."""
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]


def _translate(glob: str, ignores_case: bool) -> list[Piece] | None:
    """Translate a git pattern to pieces. Return None for a pattern that matches nothing."""
    out: list[Piece] = []
    at = 0
    while at < len(glob):
        letter = glob[at]
        piece: Piece
        if letter == "*":
            piece, at = _stars(glob, at)
        elif letter == "?":
            piece, at = ANY & ~SLASH, at + 1
        elif letter == "[":
            parsed = _bracket(glob, at, ignores_case)
            if parsed is None:
                return None
            piece, at = parsed
        elif letter == "\\" and at + 1 == len(glob):
            return None
        else:
            letter, at = _bracket_letter(glob, at)
            piece = _of_both_cases(1 << ord(letter)) if ignores_case else 1 << ord(letter)
        if piece != FOLDERS or out[-1:] != [FOLDERS]:  # Two consecutive FOLDERS match the same texts as a single one.
            out.append(piece)
    return out


def _stars(glob: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    after = glob[end : end + 2]
    whole_component = (at == 0 or glob[at - 1] == "/") and (not after or after[0] == "/" or after == "\\/")
    if end - at < 2 or not whole_component:
        return "[^/]*", end
    if after[:1] == "/":
        return FOLDERS, end + 1
    return (".*" if at == 0 or after else ".+"), end


def _range(low: str, high: str) -> int:
    """Return the set of the characters from `low` to `high`. It is empty if `high` comes first."""
    return (1 << ord(high) + 1) - (1 << ord(low)) if low <= high else 0


UPPER, LOWER, DIGITS = _range("A", "Z"), _range("a", "z"), _range("0", "9")
CLASSES = {
    "alnum": UPPER | LOWER | DIGITS,
    "alpha": UPPER | LOWER,
    "blank": 1 << ord(" ") | 1 << ord("\t"),
    "cntrl": _range("\0", "\x1f") | 1 << 0x7F,
    "digit": DIGITS,
    "graph": _range("!", "~"),
    "lower": LOWER,
    "print": _range(" ", "~"),
    "punct": _range("!", "/") | _range(":", "@") | _range("[", "`") | _range("{", "~"),
    "space": _range("\t", "\r") | 1 << ord(" "),
    "upper": UPPER,
    "xdigit": _range("A", "F") | _range("a", "f") | DIGITS,
}
CLASS = re.compile(r"\[:([a-z]*):\]")


def _of_both_cases(letters: int) -> int:
    """Add the other case of each ASCII letter to a set of characters."""
    return letters | (letters & UPPER) << 32 | (letters & LOWER) >> 32


def _bracket(glob: str, at: int, ignores_case: bool) -> tuple[int, int] | None:
    end = at + 1
    negated = glob[end : end + 1] in {"!", "^"}
    end += negated
    letters = 0
    first = True
    while first or glob[end : end + 1] != "]":
        if end >= len(glob):
            return None
        parsed = _bracket_item(glob, end)
        if parsed is None:
            return None
        letters, end = letters | parsed[0], parsed[1]
        first = False
    letters = _of_both_cases(letters) if ignores_case else letters
    return (ANY & ~letters if negated else letters) & ~SLASH, end + 1


def _bracket_item(glob: str, at: int) -> tuple[int, int] | None:
    named = CLASS.match(glob, at)
    if named:
        return (CLASSES[named[1]], named.end()) if named[1] in CLASSES else None
    low, at = _bracket_letter(glob, at)
    if glob[at : at + 1] == "-" and at + 1 < len(glob) and glob[at + 1] != "]":
        high, at = _bracket_letter(glob, at + 1)
        return _range(low, high), at
    return 1 << ord(low), at


def _bracket_letter(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        return glob[at + 1], at + 2
    return glob[at], at + 1
