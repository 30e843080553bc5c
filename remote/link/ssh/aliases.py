"""The hosts that ~/.ssh/config names, for people to choose from: what each means is asked of `ssh` itself."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from remote.link.ssh.options import home

DEEPEST = 8
PATTERN = frozenset("*?!")


def list_aliases(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Every name of a Host line that is no pattern, in order, with what is included; none where nothing can be read."""
    environment = os.environ if environment is None else environment
    folder = home(environment) / ".ssh"
    path = Path(environment.get("HALFSTEP_SSH_CONFIG") or folder / "config")
    return tuple(dict.fromkeys(_names(path, folder, DEEPEST)))


def _names(path: Path, folder: Path, depth: int) -> Iterator[str]:
    for word, *values in _lines(path):
        if word.lower() == "host":
            yield from (value for value in values if not PATTERN & set(value))
        elif word.lower() == "include" and depth:
            for value in values:
                yield from _included(value, folder, depth - 1)


def _included(value: str, folder: Path, depth: int) -> Iterator[str]:
    """The files of an Include: what is relative lies in ~/.ssh (ssh_config(5))."""
    wanted = folder.parent / value[2:] if value.startswith("~/") else folder / value
    try:
        files = sorted(Path(wanted.anchor).glob(str(wanted.relative_to(wanted.anchor))))
    except (OSError, ValueError):
        return
    for file in files:
        yield from _names(file, folder, depth)


def _lines(path: Path) -> Iterator[list[str]]:
    """Each line as words; `Host = a` and `Host a` are the same."""
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return
    for line in text.splitlines():
        words = _words(line)
        if words:
            yield words


def _words(line: str) -> list[str]:
    first, _, rest = line.strip().replace("\t", " ").replace("=", " ", 1).partition(" ")
    try:
        return [first, *shlex.split(rest, comments=True)] if first and not first.startswith("#") else []
    except ValueError:
        return []
