"""Which languages are parsed again after a rewrite, by file name."""

from __future__ import annotations

from collections.abc import Callable

from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.python import reads_python
from fixers.sources.source import Source


class Unchecked(Exception):
    """No parser here knows files of that name."""


def _parse_python(source: Source) -> None:
    _ = source.python


def _parse_config(source: Source) -> None:
    read_config(source.path, source.data)


def _parse_commands(source: Source) -> None:
    read_commands(source.path, source.data)


PARSERS: tuple[tuple[Callable[[str], bool], Callable[[Source], None]], ...] = (
    (reads_python, _parse_python),
    (reads_config, _parse_config),
    (reads_commands, _parse_commands),
)
"""(matches the path, raises Unparsable): the first that matches is asked."""


def parse_again(source: Source) -> None:
    """The bytes parse as what the path says they are. Raises Unparsable, or Unchecked where nobody can say."""
    for matches, parse in PARSERS:
        if matches(source.path):
            parse(source)
            return
    raise Unchecked(source.path)
