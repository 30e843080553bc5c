"""Commands in hints, as text that a user can paste into a shell."""

from __future__ import annotations

import os
import shlex
from typing import Union


def shell_command(template: str, *words: Union[str, os.PathLike[str]]) -> str:
    """Return the template with each `{}` replaced by the next word.

    Every word with a special meaning in a shell is quoted, because names and paths come from projects and hosts.
    """
    return template.format(*(shlex.quote(os.fspath(word)) for word in words))
