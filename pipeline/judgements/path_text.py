"""Text that is written as a path of one machine, and the part of it that names a place for certain. Pure."""

from __future__ import annotations

import posixpath
import re

WINDOWS = re.compile(r"[A-Za-z]:[\\/](?=[\w ])[\w .()\\/-]*")
SYSTEM = ("/dev", "/proc", "/sys", "/tmp", "/var/tmp", "/usr", "/bin", "/etc", "/lib", "/run")
HOMES = re.compile(r"(?:/Users/[^/]+|/home/[^/]+/[^/]+|/mnt/[a-z]/Users/[^/]+)(?:/|$)")
NO_PATH = re.compile(r"[\n\t\\|^$<>;\"'`]|://|\.\*|\.\+|\(\?|[\[\]{}]")
LONGEST = 512
MOST_WORDS = 4


def path_in(text: str) -> str:
    """The path that `text` is: absolute, under a home (`~/`), above the working folder (`../`) or of Windows.

    Empty where it is none, or one of the system's. What a pattern (`*`) leaves open is cut off.
    """
    if len(text) > LONGEST or "\0" in text:
        return ""
    if WINDOWS.fullmatch(text):
        return text
    if not text.startswith(("/", "~/", "../")) or NO_PATH.search(text) or text.count(" ") > MOST_WORDS:
        return ""
    stem = re.split(r"[*?]", text, maxsplit=1)[0]
    path = posixpath.normpath(stem if stem == text else posixpath.dirname(stem))
    named = path.lstrip("./~")
    if not named or (path.startswith("/") and "/" not in named) or _is_of_the_system(path):
        return ""
    return path


def is_windows(path: str) -> bool:
    """No path of a Linux host looks so."""
    return WINDOWS.fullmatch(path) is not None


def is_home_form(path: str) -> bool:
    """It lies in somebody's home as macOS, Windows or Linux write it."""
    return is_windows(path) or HOMES.match(path) is not None


def _is_of_the_system(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in SYSTEM)
