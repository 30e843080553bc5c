"""Choose the parser that checks a rewritten file, by its file name."""

from __future__ import annotations

from collections.abc import Callable

from fixers.sources.commands import read_commands, reads_commands
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.python import reads_python
from fixers.sources.source import Source


class Unchecked(Exception):
    """No parser supports files with this name."""


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
"""Pairs of a predicate of the path and a parser that raises Unparsable."""


def parse_again(source: Source) -> None:
    """Parse the file with every parser for its name. Raises Unparsable, or Unchecked if no parser supports the name."""
    parsers = [parse for matches, parse in PARSERS if matches(source.path)]
    for parse in parsers:
        parse(source)
    if not parsers:
        raise Unchecked(source.path)
