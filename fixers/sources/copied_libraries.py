"""Copies of whole libraries inside a project, recognised by their package and build file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from posixpath import basename, dirname

LIBRARIES = frozenset(
    {"transformers", "peft", "trl", "accelerate", "diffusers", "datasets", "deepspeed", "fairseq", "timm", "evaluate"}
    | {"torchaudio", "torchvision", "lightning", "pytorch_lightning", "bitsandbytes", "optimum", "xformers", "apex"}
)
BUILDS = ("setup.py", "pyproject.toml", "setup.cfg")
VERSION = re.compile(r"^__version__[ ]*=[ ]*[\"'](\d+(?:\.\d+)*)", re.MULTILINE)


def library_copies(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that contain the complete source of a library: its package and its build file.

    Each path ends with a slash. The top folder is excluded, because the project may be the library.
    """
    return tuple(sorted({root for root, _ in copied_packages(paths)}))


def copied_packages(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return the folder of each copy, with a slash, and the `__init__.py` of its package."""
    known = frozenset(paths)
    found: list[tuple[str, str]] = []
    for path in sorted(known):
        if path.endswith("/__init__.py"):
            above, _, package = dirname(path).rpartition("/")
            root = dirname(above) if basename(above) == "src" else above
            if package in LIBRARIES and root and any(f"{root}/{build}" in known for build in BUILDS):
                found.append((f"{root}/", path))
    return tuple(found)


def version_in(text: str) -> str:
    """Return the version that a package's `__init__.py` assigns, or an empty string if it is not a literal."""
    found = VERSION.search(text)
    return found[1] if found else ""
