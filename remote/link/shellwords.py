"""Quote a command for a login shell that may be sh, bash, zsh, fish or tcsh."""

from __future__ import annotations

import shlex
import string
from collections.abc import Sequence

# The characters that are special inside single quotes: backslash in fish, ! and line feed in tcsh, and the quote
# itself.
UNSAFE = frozenset("'\\!\n\r")
PLAIN = frozenset((string.ascii_letters + string.digits + " _-./,:=+@#").encode())


def command_line(argv: Sequence[str]) -> str:
    """Return a command line with which any of these shells replaces itself (`exec`) with the process `argv`."""
    line = "exec " + shlex.join(argv)
    if not any(UNSAFE & set(word) for word in argv):
        return line
    return f'exec /bin/sh -c \'eval "$(printf %b "{_octal(line)}")"\''


def _octal(text: str) -> str:
    """Encode `text` for printf's %b, with every character that is special to a shell as \\0 and three octal digits."""
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in PLAIN else f"\\0{byte:03o}" for byte in data)
