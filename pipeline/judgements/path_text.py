"""Recognise machine-specific paths in text. Pure."""

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
    """Return the path in `text`: absolute, in the home folder (`~/`), in a parent folder (`../`), or a Windows path.

    Return "" for a system path, and if `text` is not a path. A glob pattern (`*`) is cut to its constant parent folder.
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
    """Return True for a Windows path."""
    return WINDOWS.fullmatch(path) is not None


def is_in_home_folder(path: str) -> bool:
    """Return True for a path in a home folder of macOS, Windows or Linux."""
    return is_windows(path) or HOMES.match(path) is not None


def _is_of_the_system(path: str) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in SYSTEM)
