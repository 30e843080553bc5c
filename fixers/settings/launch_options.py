"""The options of a command with their values, and the variables that the command sets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from posixpath import basename

from fixers.settings.precision_words import (
    FLASH_SWITCH,
    FLASH_VALUE,
    IS_TF32,
    LIKE_BF16,
    LIKE_FP16,
    NO_FLASH_SWITCH,
    option,
)
from fixers.sources.words import Command, Word
from remote.protocol.dataclass import dataclass

OVERRIDE = re.compile(r"(\+{0,2}|--)([\w.-]+)=(.*)", re.DOTALL)
SWITCHES = (LIKE_BF16, LIKE_FP16, IS_TF32, FLASH_SWITCH, NO_FLASH_SWITCH)
SERVERS = frozenset({"text-generation-launcher", "text-embeddings-router", "llama-server", "tritonserver"})
SERVES = frozenset({"vllm serve", "lmdeploy serve", "sglang serve"})
SERVER_MODULE = re.compile(r"vllm\.entrypoints\.[\w.]+|sglang\.launch_server|fastchat\.serve\.[\w.]+")
FLAG = re.compile(r"--?[A-Za-z][\w.-]*")


@dataclass(frozen=True)
class TextRange:
    """The range and text of a value in an argument. `text` is None if the shell expands part of the value."""

    start: int
    end: int
    text: str | None
    raw: str


@dataclass(frozen=True)
class CommandOption:
    """One option of a command: its name as configs spell it, the range of the flag, and its value or None."""

    name: str
    flag: TextRange
    value: TextRange | None


Options = Mapping[str, CommandOption]
"""The options of a command by name: the first one of each name."""


def options_of(words: Sequence[Word]) -> Iterator[CommandOption]:
    """Yield the command's options: `--name`, `--name value`, `--name=value`, and Hydra's `name=value`."""
    for at, word in enumerate(words):
        body = word.body or word.inside
        if body is None and not word.raw.startswith("-"):
            continue
        start, end = body or (word.start, word.end)
        raw = word.raw[start - word.start : end - word.start]
        match = OVERRIDE.fullmatch(raw)
        if match and (match[1] or not match[2].isupper()):
            yield _override(start, end, raw, word.text, match)
        elif FLAG.fullmatch(raw):
            flag = TextRange(start, end, raw, raw)
            value = words[at + 1] if at + 1 < len(words) and not words[at + 1].raw.startswith("-") else None
            yield CommandOption(option(raw), flag, text_range_of(value) if value and _is_value_of(raw, value) else None)


def serves_model(command: Command) -> bool:
    """Return True for a command that starts an inference server. It trains nothing, and chooses its own attention."""
    words = [word.text or "" for word in command.words]
    pairs = {f"{basename(one)} {other}" for one, other in pairwise(words)}
    modules = (each for each in words if SERVER_MODULE.fullmatch(each))
    return any(basename(each) in SERVERS for each in words[:2]) or bool(pairs & SERVES) or any(modules)


def _is_value_of(flag: str, value: Word) -> bool:
    """Return True if the word is the flag's value. The value of a switch is a boolean or a shell expansion."""
    name = option(flag)
    if not any(switch.fullmatch(name) for switch in SWITCHES):
        return True
    text = (value.text or "").lower()
    booleans = ("true", "false", "yes", "no", "on", "off", "0", "1", "auto", "full")
    return value.text is None or text in booleans or bool(FLASH_VALUE.fullmatch(text))


def _override(start: int, end: int, raw: str, text: str | None, match: re.Match[str]) -> CommandOption:
    quote, inner = unquoted(match[3])
    exact = inner if text is not None and text.endswith(f"={inner}") else None
    flag = TextRange(start, start + match.end(2), match[1] + match[2], raw[: match.end(2)])
    return CommandOption(option(match[2]), flag, TextRange(start + match.start(3) + quote, end - quote, exact, inner))


def unquoted(value: str) -> tuple[int, str]:
    """Return the width of the quotes around the value (1, or 0 without quotes), and the text without them."""
    quoted = len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]
    return (1, value[1:-1]) if quoted else (0, value)


def text_range_of(word: Word) -> TextRange:
    """Return the word's range and text without the quotes around it."""
    start, end = word.body or word.inside or (word.start, word.end)
    return TextRange(start, end, word.text if word.body else None, word.raw[start - word.start : end - word.start])


def assignments_of(command: Command) -> Iterator[tuple[str, TextRange]]:
    """Yield the variables that a command sets: assignments, `export NAME=value`, `env NAME=value`, `-e NAME=value`."""
    for assignment in command.assignments:
        if not assignment.items or assignment.value.text is not None:
            yield assignment.name, text_range_of(assignment.value)
    for word in command.words:
        body = word.body or word.inside or (word.start, word.end)
        raw = word.raw[body[0] - word.start : body[1] - word.start]
        for match in re.finditer(r"(?:^|,)([A-Za-z_]\w*)=((?:[^,\"'\s]|\"[^\"]*\"|'[^']*')*)", raw):
            quote, inner = unquoted(match[2])
            start = body[0] + match.start(2) + quote
            exact = inner if not set(inner) & set("$`\\") else None
            yield match[1], TextRange(start, start + len(inner), exact, inner)
