"""Sort requirements: packages that import torch while they are built are installed last."""

from __future__ import annotations

import os
import re
from typing import Collection, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from remote.payload.tree.paths import check_path
from remote.protocol.dataclass import dataclass, field

BUILT_WITH_TORCH = ("flash-attn", "flash-attn-3", "mamba-ssm", "causal-conv1d")
"""Packages whose setup.py imports torch, which pip's isolated build environment lacks (flash-attention#358)."""
BUILD_TOOLS = ("setuptools", "wheel", "packaging", "ninja", "psutil")
"""The build requirements of BUILT_WITH_TORCH. pip does not install them for a build without isolation."""
NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
INCLUDE = re.compile(r"\s*(-r|--requirement|-c|--constraint)[\s=]+(\S+)\s*")
OPTIONS = re.compile(r"\s--\w.*")
"""pip's options after a requirement, such as --hash."""


@dataclass
class Requirements:
    """Requirements, sorted by how they are installed.

    `pip_arguments`: pip's arguments for most packages. `deferred`: requirements to install after torch. `left_out`:
    names of packages that are not installed.
    """

    pip_arguments: List[str] = field(default_factory=list)
    deferred: List[str] = field(default_factory=list)
    left_out: List[str] = field(default_factory=list)


CONTINUED = "\0"
"""Stands for the end of a line that continues on the next one. pip rejects it in a requirement."""


def sort_requirements(
    tree: str, files: Sequence[str], packages: Sequence[str], left_out: Collection[str], folder: str
) -> Requirements:
    """Sort the requirements of `files` and `packages`.

    If a requirement of a file is deferred or left out, a copy of the file without that requirement is written to
    `folder`.
    """
    found = Requirements()
    for name in files:
        path = os.path.join(tree, check_path(name))
        texts: Dict[str, str] = {}
        kept = len(found.deferred) + len(found.left_out)
        _copy(path, folder, left_out, found, texts)
        changed = len(found.deferred) + len(found.left_out) > kept
        for copy, text in texts.items() if changed else ():
            with open(copy, "w", encoding="utf-8") as file:
                file.write(text)
        found.pip_arguments += ["-r", next(iter(texts)) if changed else path]
    found.pip_arguments += [each for each in packages if not _defer_or_leave_out(each, left_out, found)]
    return found


def list_requirements(tree: str, files: Sequence[str]) -> Optional[List[str]]:
    """Return the lines of requirements files and of the files that they include by `-r`.

    Return None if a file is included by a URL, or is not readable: the requirements are then not completely known.
    """
    found: List[str] = []
    new = [os.path.join(tree, check_path(name)) for name in files]
    seen: Set[str] = set()
    while new:
        path = os.path.normpath(new.pop())
        if path in seen:
            continue
        seen.add(path)
        try:
            lines = list(_logical_lines(path))
        except OSError:
            return None
        for line in lines:
            include = INCLUDE.fullmatch(line)
            if include is None:
                found.append(OPTIONS.sub("", line.partition(" #")[0]).strip())
            elif "://" in include.group(2):
                return None
            elif include.group(1) in ("-r", "--requirement"):
                new.append(os.path.join(os.path.dirname(path), include.group(2)))
    return [line for line in found if line and not line.startswith(("-", "#"))]


def _copy(path: str, folder: str, left_out: Collection[str], found: Requirements, texts: Dict[str, str]) -> str:
    """Return the path for the copy of a requirements file.

    Add path and text of the copy to `texts`. Included requirements files are copied too. A requirement has the same
    line in the copy, because pip names the line in its errors.
    """
    copy = os.path.join(folder, f"{len(os.listdir(folder))}-{len(texts)}-{os.path.basename(path)}")
    texts[copy] = ""
    lines: List[str] = []
    for line, more in _numbered_lines(path):
        include = INCLUDE.fullmatch(line)
        if include is not None:
            option, target = include.group(1), os.path.join(os.path.dirname(path), include.group(2))
            nested = option in ("-r", "--requirement") and os.path.isfile(target) and len(texts) < 100
            target = _copy(target, folder, left_out, found, texts) if nested else target
            lines.append(f"{option} {target}" if "://" not in include.group(2) else line)
        else:
            lines.append("" if _defer_or_leave_out(line, left_out, found) else line)
        lines += [""] * more
    texts[copy] = "\n".join(lines) + "\n"
    return copy


def _logical_lines(path: str) -> Iterator[str]:
    return (line for line, _ in _numbered_lines(path))


def _numbered_lines(path: str) -> Iterator[Tuple[str, int]]:
    """Yield each logical line, and the number of further lines of the file that it continues on."""
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file.read().replace("\\\n", CONTINUED).splitlines():
            yield line.replace(CONTINUED, " "), line.count(CONTINUED)


def _defer_or_leave_out(line: str, left_out: Collection[str], found: Requirements) -> bool:
    """If the requirement is deferred or left out, record that in `found` and return True."""
    name = NAME.match(line)
    package = re.sub(r"[-_.]+", "-", name.group(1)).lower() if name else ""
    if package in left_out:
        found.left_out.append(package)
    elif package in BUILT_WITH_TORCH:
        found.deferred.append(line.strip())
    else:
        return False
    return True
