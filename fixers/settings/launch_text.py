"""A launch as bytes: its argv and then its variables, separated by NUL bytes as in /proc/PID/cmdline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from fixers.settings.text_arguments import holds_arguments
from fixers.sources import nodes
from fixers.sources.config_commands import TEXT_KEYS
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Assignment, Command, Script, Word
from remote.protocol.dataclass import dataclass

NUL = b"\0"


@dataclass(frozen=True)
class Launch:
    """The argv of the project's command (None for the built-in trainer) and its environment variables."""

    command: tuple[str, ...] | None
    env: Mapping[str, str]


@dataclass(frozen=True)
class LaunchText:
    """A launch as bytes.

    `script`: the argv, and the commands inside its arguments and variables. `env`: the variables.
    """

    data: bytes
    script: Script
    env: nodes.Mapping


def read_launch(launch: Launch) -> LaunchText:
    """Encode the launch as bytes and parse its commands and variables."""
    texts = [*(launch.command or ()), *(text for pair in launch.env.items() for text in pair)]
    data, words = _joined(texts)
    argv, variables = words[: len(launch.command or ())], words[len(launch.command or ()) :]
    env = tuple(zip(variables[::2], variables[1::2], strict=True))
    inner = [scan for word in _shell_texts(argv, env) for scan in _scan(data, word)]
    outer = Command(tuple(Assignment(name.raw, value) for name, value in env), argv)
    commands = (outer, *(command for script in inner for command in script.commands))
    heredocs = tuple(heredoc for script in inner for heredoc in script.heredocs)
    entries = tuple((_scalar(name), _scalar(value)) for name, value in env)
    return LaunchText(data, Script(commands, heredocs), nodes.Mapping(entries, nodes.Span(0, len(data), 1, 0)))


def launch_from(data: bytes, original: Launch) -> Launch:
    """Decode edited bytes to a launch with as many variables as `original`."""
    texts = [text.decode("utf-8", "surrogatepass") for text in data.split(NUL)]
    argv, pairs = texts[: len(texts) - 2 * len(original.env)], texts[len(texts) - 2 * len(original.env) :]
    return Launch(original.command and tuple(argv), dict(zip(pairs[::2], pairs[1::2], strict=True)))


def _joined(texts: Iterable[str]) -> tuple[bytes, tuple[Word, ...]]:
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    words: list[Word] = []
    start = 0
    for text in encoded:
        raw = text.decode("latin-1")
        words.append(Word(start, start + len(text), raw, raw))
        start += len(text) + len(NUL)
    return NUL.join(encoded), tuple(words)


def _shell_texts(argv: Iterable[Word], env: Iterable[tuple[Word, Word]]) -> Iterator[Word]:
    """Yield the words that may contain commands: arguments with spaces, and values of variables with options."""
    yield from (word for word in argv if " " in word.raw)
    for name, value in env:
        if name.raw.lower() in TEXT_KEYS or holds_arguments(value.raw.encode("latin-1")):
            yield value


def _scan(data: bytes, word: Word) -> Iterator[Script]:
    with suppress(Unparsable):
        yield scan_shell(data, word.start, word.end)


def _scalar(word: Word) -> nodes.Scalar:
    return nodes.Scalar(word.raw, nodes.Span(word.start, word.end, 1, 0))
