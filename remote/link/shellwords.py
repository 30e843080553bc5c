"""argv as one line for a login shell that may be sh, bash, zsh, fish or tcsh."""

from __future__ import annotations

import shlex
import string
from collections.abc import Sequence

# Inside single quotes these mean something to fish (backslash), tcsh (! and line feed), or end the quote.
AWKWARD = frozenset("'\\!\n\r")
PLAIN = frozenset((string.ascii_letters + string.digits + " _-./,:=+@#").encode())


def command_line(argv: Sequence[str]) -> str:
    """A line that becomes the process `argv` under any of those shells."""
    line = "exec " + shlex.join(argv)
    if not any(AWKWARD & set(word) for word in argv):
        return line
    return f'exec /bin/sh -c \'eval "$(printf %b "{_spelled(line)}")"\''


def _spelled(text: str) -> str:
    """For printf's %b: whatever any shell could take for itself as \\0 and three octal digits."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in PLAIN else f"\\0{byte:03o}" for byte in data)
