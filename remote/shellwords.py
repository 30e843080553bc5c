"""argv as one line for a login shell that may be sh, bash, zsh, fish or tcsh."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence

# Inside single quotes these mean something to fish (backslash), tcsh (! and line feed), or end the quote.
AWKWARD = frozenset("'\\!\n\r\0")


def command_line(argv: Sequence[str]) -> str:
    """A line that becomes the process `argv` under any of those shells."""
    if not any(AWKWARD & set(word) for word in argv):
        return "exec " + shlex.join(argv)
    coded = base64.b64encode(("exec " + shlex.join(argv)).encode("utf-8", "surrogateescape")).decode("ascii")
    return f"exec /bin/sh -c 'eval \"$(echo {coded} | base64 -d)\"'"
