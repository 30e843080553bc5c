"""Validate the file names that a host offers, since a rented machine must not choose local paths."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from remote.errors import PullRefused
from remote.protocol.dataclass import dataclass

MAX_NAMES = 10_000
MAX_DEPTH = 10
MAX_PART_BYTES = 240
MAX_NAME_BYTES = 1024
REPLACED = ".replaced-"
SHELL = frozenset("$`'\"")
RESERVED = frozenset({"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(1, 10))})


@dataclass(frozen=True)
class JudgedNames:
    """The safe names, in order, and the reason for each refused name."""

    accepted: tuple[str, ...]
    refused: tuple[tuple[str, str], ...]


def judge_names(names: Iterable[str], *, plain: bool = False) -> JudgedNames:
    """Validate each name by itself and against the names before it. Raises PullRefused for more than 10,000 names.

    If `plain` is True, characters with a meaning in a shell are refused too.
    """
    judge = NameJudge(plain=plain)
    judged = [(name, judge.reason(name)) for name in names]
    accepted = tuple(name for name, reason in judged if not reason)
    return JudgedNames(accepted, tuple((name, reason) for name, reason in judged if reason))


class NameJudge:
    """Validates names one by one, each against all names that were accepted before."""

    def __init__(self, *, plain: bool = False) -> None:
        self._plain = plain
        self._accepted: dict[str, str] = {}
        self._seen = 0

    def reason(self, name: str) -> str:
        """Return why the name is refused, or "". Raises PullRefused for more than 10,000 names."""
        self.count()
        reason = judge_name(name) or (_special(name) if self._plain else "") or _collision(name, self._accepted)
        if not reason:
            self._accepted.update({_folded(folder): folder for folder in _with_parents(name)})
        return reason

    def count(self) -> None:
        """Count a name that the caller refuses itself. Raises PullRefused for more than 10,000 names."""
        self._seen += 1
        if self._seen > MAX_NAMES:
            raise PullRefused(f"the host offers more than {MAX_NAMES} files", hint="pipeline status")


def judge_name(name: str) -> str:
    """Return why the name is refused, or ""."""
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"the name is longer than {MAX_NAME_BYTES} bytes"
    parts = name.split("/")
    if len(parts) > MAX_DEPTH:
        return f"the name lies more than {MAX_DEPTH} folders deep"
    return next((reason for part in parts if (reason := _judge_part(part))), "")


def _special(name: str) -> str:
    special = any(character in SHELL or unicodedata.category(character) in ("Zl", "Zp") for character in name)
    return "the name holds a character that has a meaning in a shell" if special else ""


def _judge_part(part: str) -> str:
    if part in ("", ".", ".."):
        return "the name would leave its folder"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in part) or "\\" in part:
        return "the name holds a control character, a backslash or bytes that are not UTF-8"
    if len(part.encode()) > MAX_PART_BYTES:
        return f"part of the name is longer than {MAX_PART_BYTES} bytes"
    if part.split(".", maxsplit=1)[0].lower() in RESERVED or part[-1] in ". ":
        return "the name is reserved on some systems"
    if REPLACED in part:
        return f"{REPLACED} is reserved for files that were replaced"
    return ""


def _collision(name: str, taken: dict[str, str]) -> str:
    """Describe a collision with an accepted name on a file system that ignores case or Unicode form, or return ""."""
    if (other := taken.get(_folded(name))) is not None:
        return f"the name is the same as {other} on a file system that ignores case or accents"
    for folder in _with_parents(name)[:-1]:
        if taken.get(_folded(folder), folder) != folder:
            return f"its folder is the same as {taken[_folded(folder)]} on a file system that ignores case or accents"
    return ""


def _with_parents(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[: count + 1]) for count in range(len(parts))]


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
