"""Which languages are parsed again after a rewrite, by file name."""

from __future__ import annotations

from collections.abc import Callable

from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.python import read_python, reads_python


class Unchecked(Exception):
    """No parser here knows files of that name."""


def _parse_python(path: str, data: bytes) -> None:
    read_python(path, data)


def _parse_config(path: str, data: bytes) -> None:
    read_config(path, data)


def _parse_commands(path: str, data: bytes) -> None:
    read_commands(path, data)


PARSERS: tuple[tuple[Callable[[str], bool], Callable[[str, bytes], None]], ...] = (
    (reads_python, _parse_python),
    (reads_config, _parse_config),
    (reads_commands, _parse_commands),
)
"""(matches the path, raises Unparsable): the first that matches is asked."""


def parse_again(path: str, data: bytes) -> None:
    """The bytes parse as what the path says they are. Raises Unparsable, or Unchecked where nobody can say."""
    for matches, parse in PARSERS:
        if matches(path):
            parse(path, data)
            return
    raise Unchecked(path)
