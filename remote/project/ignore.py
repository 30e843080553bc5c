"""What git would ignore, decided as git decides it: nested files, negation, the last pattern that matches.

Written from gitignore(5) and held against git itself in a test. One entry is matched at a time while walking, and an
ignored folder is not entered; both are needed for `*`, `!*/`, `!*.py` to mean what git makes of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """One line of an ignore file. `name_only`: it has no slash, so it is matched against the last component."""

    regex: re.Pattern[str]
    negated: bool
    folders_only: bool
    name_only: bool


@dataclass(frozen=True)
class Rules:
    """One ignore file: its patterns, last first, and its folder (POSIX, with a slash at its end, or empty)."""

    folder: str
    patterns: tuple[Pattern, ...]

    def verdict(self, path: str, name: str, is_folder: bool) -> bool | None:
        """True: ignored. False: kept by a negation. None: this file does not say."""
        inside = path[len(self.folder) :]
        for pattern in self.patterns:
            if pattern.folders_only and not is_folder:
                continue
            if pattern.regex.match(name if pattern.name_only else inside):
                return not pattern.negated
        return None


def parse_rules(text: str, folder: str = "") -> Rules:
    """The rules of one ignore file's text."""
    patterns = [pattern for line in text.split("\n") if (pattern := _parse_line(line)) is not None]
    return Rules(folder, tuple(reversed(patterns)))


def is_ignored(rules: Iterable[Rules], path: str, name: str, is_folder: bool) -> bool:
    """The first of `rules` that says anything decides; give the innermost folder's first."""
    for one in rules:
        verdict = one.verdict(path, name, is_folder)
        if verdict is not None:
            return verdict
    return False


def _parse_line(line: str) -> Pattern | None:
    line = _strip_trailing(line.removesuffix("\r"))
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    folders_only = line.endswith("/")
    line = line.removesuffix("/") if folders_only else line
    name_only = "/" not in line
    source = _translate(line.removeprefix("/"))
    if not line or source is None:
        return None
    return Pattern(re.compile(source, re.DOTALL), negated, folders_only, name_only)


def _strip_trailing(line: str) -> str:
    """Trailing spaces are not part of a pattern, unless a backslash keeps them."""
    end = len(line)
    while end and line[end - 1] == " ":
        backslashes = len(line[: end - 1]) - len(line[: end - 1].rstrip("\\"))
        if backslashes % 2:
            break
        end -= 1
    return line[:end]


def _translate(glob: str) -> str | None:
    """A wildmatch pattern as a regular expression; None where git would match nothing with it."""
    out = []
    at = 0
    while at < len(glob):
        letter = glob[at]
        if letter == "*":
            piece, at = _stars(glob, at)
        elif letter == "?":
            piece, at = "[^/]", at + 1
        elif letter == "[":
            parsed = _bracket(glob, at)
            if parsed is None:
                return None
            piece, at = parsed
        elif letter == "\\":
            if at + 1 == len(glob):
                return None
            piece, at = re.escape(glob[at + 1]), at + 2
        else:
            piece, at = re.escape(letter), at + 1
        out.append(piece)
    return "".join(out) + r"\Z"


def _stars(glob: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    whole_component = (at == 0 or glob[at - 1] == "/") and (end == len(glob) or glob[end] == "/")
    if end - at != 2 or not whole_component:
        return "[^/]*", end
    if end == len(glob):
        return ".*" if at == 0 else ".+", end
    return "(?:.*/)?", end + 1


CLASSES = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}


def _bracket(glob: str, at: int) -> tuple[str, int] | None:
    end = at + 1
    negated = glob[end : end + 1] in {"!", "^"}
    end += negated
    items: list[str] = []
    first = True
    while first or glob[end : end + 1] != "]":
        if end >= len(glob):
            return None
        parsed = _bracket_item(glob, end)
        if parsed is None:
            return None
        item, end = parsed
        items.append(item)
        first = False
    body = "".join(items)
    if negated:
        return f"[^/{body}]", end + 1
    return (f"(?!/)[{body}]" if body else "(?!)"), end + 1


def _bracket_item(glob: str, at: int) -> tuple[str, int] | None:
    named = re.compile(r"\[:([a-z]*):\]").match(glob, at)
    if named:
        return (CLASSES[named[1]], named.end()) if named[1] in CLASSES else None
    low, at = _bracket_letter(glob, at)
    if glob[at : at + 1] == "-" and at + 1 < len(glob) and glob[at + 1] != "]":
        high, at = _bracket_letter(glob, at + 1)
        return ("" if low > high else f"{re.escape(low)}-{re.escape(high)}"), at
    return re.escape(low), at


def _bracket_letter(glob: str, at: int) -> tuple[str, int]:
    if glob[at] == "\\" and at + 1 < len(glob):
        return glob[at + 1], at + 2
    return glob[at], at + 1
