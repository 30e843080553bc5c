"""Quote a command for a login shell that may be sh, bash, zsh, fish or tcsh."""

from __future__ import annotations

import shlex
import string
from collections.abc import Sequence

# Special characters inside single quotes: backslash for fish, ! and line feed for tcsh, and the end of the quote.
UNSAFE = frozenset("'\\!\n\r")
PLAIN = frozenset((string.ascii_letters + string.digits + " _-./,:=+@#").encode())


def command_line(argv: Sequence[str]) -> str:
    """Return a command line that makes any of these shells `exec` the process `argv`."""
    line = "exec " + shlex.join(argv)
    if not any(UNSAFE & set(word) for word in argv):
        return line
    return f'exec /bin/sh -c \'eval "$(printf %b "{_octal(line)}")"\''


def _octal(text: str) -> str:
    """Encode `text` for printf's %b, with every character that is special to a shell as \\0 and three octal digits."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in PLAIN else f"\\0{byte:03o}" for byte in data)
