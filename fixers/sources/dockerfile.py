"""Parse a Dockerfile to commands (RUN, CMD, ENTRYPOINT, HEALTHCHECK) and variables (ENV, ARG)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from fixers.sources.json_nodes import read_json
from fixers.sources.nodes import Scalar, Sequence
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Assignment, Command, Script, Word

INSTRUCTION = re.compile(
    rb"[ \t]*(?:ONBUILD[ \t]+)?(RUN|CMD|ENTRYPOINT|HEALTHCHECK|ENV|ARG)[ \t]+(?:--[\w-]+=\S+[ \t]+)*", re.IGNORECASE
)
BEHIND_BACKSLASH = re.compile(rb"\\([ \t]+)(?=\r?$)", re.MULTILINE)
BETWEEN_LINES = re.compile(rb"(?<=\n)[ \t]*(?:#[^\n]*|\r?)\n")


def scan_dockerfile(data: bytes) -> Script:
    """Return all commands and variables. Instructions that do not parse are skipped."""
    commands: list[Command] = []
    found = [match for start, stop in _instructions(data) if (match := INSTRUCTION.match(data, start, stop))]
    joined = bytearray(data)
    for match in found:
        joined[match.end() : match.endpos] = _as_one_line(data[match.end() : match.endpos])
    lines = bytes(joined)
    for match in found:
        commands += _commands(data, lines, match[1].upper(), match.end(), match.endpos)
    return Script(tuple(commands))


def _instructions(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the byte range of each instruction with its continuation lines."""
    start, at = -1, 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = len(data) if end < 0 else end
        line = data[at:end].rstrip(b"\r")
        comment = line.lstrip().startswith(b"#") or (start >= 0 and not line.strip())
        if not comment:
            start = at if start < 0 else start
            if not line.rstrip().endswith(b"\\"):
                yield start, at + len(line)
                start = -1
        at = end + 1
    if start >= 0:
        yield start, len(data)


def _commands(data: bytes, lines: bytes, instruction: bytes, start: int, stop: int) -> tuple[Command, ...]:
    try:
        if data[start:stop].lstrip().startswith(b"["):
            return (Command((), _exec_form(data, start, stop)),)
        commands = scan_shell(lines, start, stop).commands
    except Unparsable:
        return ()
    return tuple(_legacy(command) for command in commands) if instruction == b"ENV" else commands


def _as_one_line(instruction: bytes) -> bytes:
    """Return the instruction with spaces in place of the parts that the Docker builder ignores.

    These parts are blanks after a backslash, and comment lines between continued lines.
    """
    text = BEHIND_BACKSLASH.sub(rb"\1\\", instruction)
    return BETWEEN_LINES.sub(lambda found: b" " * len(found[0]), text)


def _exec_form(data: bytes, start: int, stop: int) -> tuple[Word, ...]:
    node = read_json(data[start:stop])
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(word_of(data, item, start) for item in items if isinstance(item, Scalar))


def word_of(data: bytes, node: Scalar, offset: int = 0) -> Word:
    """Convert a JSON or YAML scalar to a word with byte positions in `data`."""
    start, end = node.span.start + offset, node.span.end + offset
    return Word(start, end, data[start:end].decode("latin-1"), node.text)


def _legacy(command: Command) -> Command:
    """Convert the legacy form `ENV NAME value` to an assignment."""
    if len(command.words) == 2 and "=" not in command.words[0].raw:
        name, value = command.words
        return dataclasses.replace(command, assignments=(Assignment(name.raw, value),), words=())
    return command
