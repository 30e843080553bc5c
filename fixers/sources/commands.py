"""Recognise files that contain commands, and parse their commands."""

from __future__ import annotations

import posixpath

from fixers.sources.dockerfile import scan_dockerfile
from fixers.sources.env_file import scan_env_file
from fixers.sources.makefile import scan_makefile
from fixers.sources.shell_words import scan_shell
from fixers.sources.shells import is_shell
from fixers.sources.words import Script

MAKEFILES = ("makefile", "gnumakefile", "bsdmakefile")
DOCKERFILES = ("dockerfile", "containerfile")


def is_makefile(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return name in MAKEFILES or name.endswith((".mk", ".mak"))


def is_dockerfile(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return name in DOCKERFILES or name.startswith(("dockerfile.", "containerfile.")) or name.endswith(".dockerfile")


def is_env_file(path: str) -> bool:
    name = posixpath.basename(path).lower()
    return name == ".env" or name.startswith(".env.") or name.endswith(".env")


def reads_commands(path: str) -> bool:
    """Return True for the path of a shell script, Makefile, Dockerfile or `.env` file."""
    return is_shell(path) or is_makefile(path) or is_dockerfile(path) or is_env_file(path)


def read_commands(path: str, data: bytes) -> Script:
    """Return the commands in the file. Raises Unparsable."""
    if is_makefile(path):
        return scan_makefile(data)
    if is_env_file(path):
        return scan_env_file(data)
    return scan_dockerfile(data) if is_dockerfile(path) else scan_shell(data)
