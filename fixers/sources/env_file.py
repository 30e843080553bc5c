"""Parse a file of environment variables (`.env`) to assignments with byte positions."""

from __future__ import annotations

import re

from fixers.sources.words import Assignment, Command, Script, Word

VARIABLE = re.compile(
    rb"^[ \t]*(?:export[ \t]+)?([A-Za-z_][\w.]*)[ \t]*=[ \t]*"
    rb"(\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s#'\"][^\r\n#]*?)(?=[ \t]*(?:#[^\r\n]*)?$)",
    re.MULTILINE,
)
EXPANDED = set("$`\\")


def scan_env_file(data: bytes) -> Script:
    """Return every `NAME=value` by the rules of docker and python-dotenv."""
    commands = []
    for found in VARIABLE.finditer(data.replace(b"\r\n", b" \n")):
        raw = found[2].decode("latin-1")
        text = raw[1:-1] if raw[0] in "\"'" else raw
        exact = None if EXPANDED & set(text) else text
        value = Word(found.start(2), found.end(2), raw, exact)
        commands.append(Command((Assignment(found[1].decode("latin-1"), value),)))
    return Script(tuple(commands))
