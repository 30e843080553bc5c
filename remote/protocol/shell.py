"""Commands in hints, as text that a user can paste into a shell."""

from __future__ import annotations

import os
import shlex
from typing import Iterable, Union


def shell_command(template: str, *words: Union[str, os.PathLike[str]]) -> str:
    """Return the template with each `{}` replaced by the next word.

    Every word with a special meaning in a shell is quoted, because names and paths come from projects and hosts.
    """
    return template.format(*(shlex.quote(os.fspath(word)) for word in words))


def outside_project(command: str) -> str:
    """Return a command line that runs the command in the root folder.

    In the folder of a project, Python and older versions of pipx import modules of the project, such as a folder `pip`,
    and other tools read settings in it.
    """
    return "(cd / && {})".replace("{}", command)


def install_on_host(python: str, packages: Iterable[str]) -> str:
    """Return the command with which pip installs packages for an interpreter of the host."""
    return outside_project(shlex.join([python or "python3", "-m", "pip", "install", *packages])) + "   (on the host)"
