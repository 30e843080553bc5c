"""List the host aliases in ssh's configuration files. resolve.py reads their options with `ssh -G`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from remote.link.ssh.config_words import ssh_words
from remote.project.user_folder import account_home, home
from remote.protocol.text import file_lines

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
USERS_CONFIG = "your ~/.ssh/config"
MAX_INCLUDE_DEPTH = 8
PATTERN = frozenset("*?!")
BLANK = " \t\r\f"
"""The characters that ssh ignores at the end of a line."""
MATCH_KEYWORDS = ("host", "originalhost")
WITHOUT_VALUE = ("all", "canonical", "final", "!canonical", "!final")


def list_aliases(environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """Return the names on Host lines of ~/.ssh/config that are not patterns, in order.

    The names in included files are listed too.
    """
    names = (value for line in _users_lines(environment) for value in line if not PATTERN & set(value))
    return tuple(dict.fromkeys(names))


def is_alias(name: str, environment: Mapping[str, str] | None = None) -> bool:
    """Return True if a `Host` or `Match host` line matches `name`; `Host *` does not count."""
    return bool(file_of_alias(name, environment))


def file_of_alias(name: str, environment: Mapping[str, str] | None = None) -> str:
    """Return the configuration file whose `Host` or `Match host` line matches `name`, or "" if there is none.

    The result is USERS_CONFIG, or the path of the configuration of the system, also for a line in an included file.
    """
    if any(_matches(name, line) for line in _users_lines(environment)):
        return USERS_CONFIG
    return str(SYSTEM_CONFIG) if any(_matches(name, line) for line in _system_lines(environment)) else ""


def reads_system_config(environment: Mapping[str, str]) -> bool:
    """Return True if `ssh` reads its default files: HALFSTEP_SSH_CONFIG is not set, and HOME is the account's."""
    return not environment.get("HALFSTEP_SSH_CONFIG") and str(home(environment)) == account_home()


def _matches(name: str, patterns: list[str]) -> bool:
    if any(fnmatchcase(name, pattern[1:]) for pattern in patterns if pattern.startswith("!")):
        return False
    return any(fnmatchcase(name, pattern) for pattern in patterns if pattern.strip("*?"))


def _users_lines(environment: Mapping[str, str] | None) -> Iterator[list[str]]:
    """Yield the patterns of each `Host` and `Match host` line in order, including the lines of included files."""
    environment = os.environ if environment is None else environment
    folder = home(environment) / ".ssh"
    path = Path(environment.get("HALFSTEP_SSH_CONFIG") or folder / "config")
    yield from _patterns(path, folder, MAX_INCLUDE_DEPTH)


def _system_lines(environment: Mapping[str, str] | None) -> Iterator[list[str]]:
    """Yield the patterns in the configuration of the system if `ssh` reads it, as _users_lines does."""
    if reads_system_config(os.environ if environment is None else environment):
        yield from _patterns(SYSTEM_CONFIG, SYSTEM_CONFIG.parent, MAX_INCLUDE_DEPTH)


def _patterns(path: Path, folder: Path, depth: int) -> Iterator[list[str]]:
    for keyword, *values in _lines(path):
        if keyword.lower() == "host":
            yield values
        elif keyword.lower() == "match":
            yield from _names_of_match(values)
        elif keyword.lower() == "include" and depth:
            for value in values:
                yield from _included(value, folder, depth - 1)


def _names_of_match(criteria: Sequence[str]) -> Iterator[list[str]]:
    """Yield the patterns of each `host` and `originalhost` of a Match line, see ssh_config(5)."""
    words = iter(criteria)
    for word in words:
        value = "" if word.lower() in WITHOUT_VALUE else next(words, "")
        if word.lower() in MATCH_KEYWORDS and value:
            yield value.split(",")


def _included(value: str, folder: Path, depth: int) -> Iterator[list[str]]:
    """Yield the patterns of the included files. Relative paths are below ~/.ssh or /etc/ssh, see ssh_config(5)."""
    pattern = folder.parent / value[2:] if value.startswith("~/") else folder / value
    try:
        files = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    except (OSError, ValueError):
        return
    for file in files:
        yield from _patterns(file, folder, depth)


def _lines(path: Path) -> Iterator[list[str]]:
    """Yield the words of each line; `Host = a` and `Host a` are equivalent."""
    try:
        text = path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return
    for line in file_lines(text):
        words = _words(line)
        if words:
            yield words


def _words(line: str) -> list[str]:
    first, _, values = line.strip(BLANK).replace("\t", " ").replace("=", " ", 1).partition(" ")
    try:
        return [first, *ssh_words(values, comments=True)] if first and not first.startswith("#") else []
    except ValueError:
        return []
