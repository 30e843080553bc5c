"""Remove an option from a command, or a key from a YAML or JSON file, and keep its value in an environment variable."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fixers.settings.edit_list import EditList
from fixers.sources.nodes import Mapping, Scalar
from fixers.sources.shells import is_shell
from fixers.sources.trainer_names import Removed
from fixers.sources.words import Command, Word

BOOLEANS = ("true", "false", "1", "0", "yes", "no")
STARTS = re.compile(r"python[\d.]*|torchrun|accelerate|deepspeed|llamafactory-cli|axolotl|nohup|srun|exec|uv|poetry")
"""Matches words that start a command, and that may follow an assignment of the shell."""
PLAIN = re.compile(r"(\"?)([\w./~:@%+,=$-]|\$\{\w+\})+\1")
"""Matches values that mean the same in a default of the shell."""
COMMA = re.compile(rb"\s*,\s*")
BLOCK_KEY = re.compile(rb"[ \t]*(?:#[^\n]*)?(?:\r?\n|$)")
WHY = "transformers removed this option"


def remove_option(edits: EditList, words: Sequence[Word], at: int, change: Removed, command: Command | None) -> None:
    """Remove the option, its value and the space after them (or before them, at the end of a command).

    `command`: the command of the words, if it can begin with an assignment. The value of an option that a variable
    replaces is assigned there to the variable, unless the variable is set already.
    """
    after = at + 1
    if after < len(words) and "=" not in words[at].raw and _is_value(words[after], change):
        after += 1
    if after < len(words):
        start, stop = words[at].start, words[after].start
    else:
        start, stop = (words[at - 1].end if at else words[at].start), words[after - 1].end
    edits.put(start, stop, b"", _why(change))
    value = words[at].raw.partition("=")[2] or (words[after - 1].raw if after > at + 1 else "")
    if change.variable and command is not None and _takes_variable(edits, command, change, value):
        default = value.strip('"')
        text = f'{change.variable}="${{{change.variable}:-{default}}}" '
        edits.put(command.words[0].start, command.words[0].start, text.encode(), _why(change))


def _why(change: Removed) -> str:
    return f"{WHY} and reads {change.variable} instead" if change.variable else f"{WHY}, and it had no effect"


def _is_value(word: Word, change: Removed) -> bool:
    return not word.raw.startswith("--") if change.variable else (word.text or "").lower() in BOOLEANS


def _takes_variable(edits: EditList, command: Command, change: Removed, value: str) -> bool:
    """Return True if the command may follow an assignment of this value, and does not assign the variable yet."""
    if not is_shell(edits.path) or any(each.name == change.variable for each in command.assignments):
        return False
    return STARTS.fullmatch(command.words[0].raw) is not None and PLAIN.fullmatch(value) is not None


def remove_key(edits: EditList, document: Mapping, at: int, change: Removed) -> bool:
    """Remove the entry, and return False if other text than blanks, commas and a comment separates it from others."""
    span = None
    if edits.path.endswith((".yaml", ".yml", ".json")):
        span = _between(edits.data, document, at) if document.flow else _own_line(edits.data, document, at)
    if span is not None and not any(each.start < span[1] and span[0] < each.end for each in edits.edits.values()):
        edits.put(*span, b"", _why(change))
        return True
    return False


def _own_line(data: bytes, document: Mapping, at: int) -> tuple[int, int] | None:
    key, value = document.entries[at]
    start = data.rfind(b"\n", 0, key.span.start) + 1
    rest = BLOCK_KEY.match(data, value.span.end)
    if rest is None or not isinstance(value, Scalar) or value.span.line != key.span.line or value.style in ("|", ">"):
        return None
    return (start, rest.end()) if not data[start : key.span.start].strip() else None


def _between(data: bytes, document: Mapping, at: int) -> tuple[int, int] | None:
    key, value = document.entries[at]
    if at + 1 < len(document.entries):
        following = document.entries[at + 1][0].span.start
        return (key.span.start, following) if COMMA.fullmatch(data, value.span.end, following) else None
    before = document.entries[at - 1][1].span.end if at else key.span.start
    return (before, value.span.end) if not at or COMMA.fullmatch(data, before, key.span.start) else None
