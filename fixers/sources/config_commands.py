"""Parse commands in settings files: word lists and shell text under keys such as `command` and `args`."""

from __future__ import annotations

from fixers.sources.config_files import read_config
from fixers.sources.dockerfile import word_of
from fixers.sources.nodes import Mapping, Node, Scalar, Sequence, walk
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Heredoc, Script, Word

TEXT_KEYS = {"command", "cmd", "run", "script", "entrypoint", "args", "before_script", "launch"}
LIST_KEYS = TEXT_KEYS | {"arguments", "argv", "extra_args", "environment", "overrides"}


def commands_in_config(path: str, data: bytes) -> Script:
    """Return every command in the file. Raises Unparsable."""
    commands: list[Command] = []
    heredocs: list[Heredoc] = []
    for document in read_config(path, data):
        for _, key, value in walk(document):
            name = key.text.lower() if isinstance(key, Scalar) else ""
            for node in _texts(name, value):
                script = _shell_of(data, node)
                commands += script.commands
                heredocs += script.heredocs
            if name in LIST_KEYS and isinstance(value, Sequence):
                commands.append(Command((), _words(data, value)))
    return Script(tuple(commands), tuple(heredocs))


def _texts(name: str, value: Node) -> tuple[Scalar, ...]:
    """Return the scalars that contain shell text.

    These are the value of a command key, or the items of its list that contain a space.
    """
    if name not in TEXT_KEYS or isinstance(value, Mapping):
        return ()
    scalars = value.items if isinstance(value, Sequence) else (value,)
    return tuple(s for s in scalars if isinstance(s, Scalar) and (s is value or " " in s.text))


def _words(data: bytes, node: Sequence) -> tuple[Word, ...]:
    return tuple(
        word_of(data, item) for item in node.items if isinstance(item, Scalar) and item.style not in ("|", ">")
    )


def _shell_of(data: bytes, node: Scalar) -> Script:
    """Parse a scalar's text as commands.

    The script is empty if escapes or doubled quotes make the bytes differ from the text.
    """
    start, stop = node.span.start, node.span.end
    if node.style in ("|", ">"):
        start = data.index(b"\n", start) + 1
    elif node.style:
        start, stop = start + 1, stop - 1
        if b"\\" in data[start:stop] or node.style.encode() in data[start:stop]:
            return Script((), ())
    if node.style != "|":
        unfolded = data[start:stop].replace(b"\r", b" ").replace(b"\n", b" ")
        data = data[:start] + unfolded + data[stop:]
    try:
        return scan_shell(data, start, stop)
    except Unparsable:
        return Script((), ())
