"""Remove the packages from a venv that earlier requirements brought and that the current requirements do not need."""

from __future__ import annotations

import json
import os
from typing import Any, Collection, Dict, List, Mapping, Sequence

from remote.payload.files.atomic import write_atomic
from remote.payload.fix.installing import PIP
from remote.payload.fix.requirements import BUILD_TOOLS
from remote.payload.fix.venv import Venv
from remote.protocol.dataclass import dataclass
from remote.protocol.values import dumps

SHOWN = 8
KEPT = ("pip", "setuptools", "wheel")
WITH_TORCH = ("torchaudio", "torchvision", "torchcodec")
"""Packages whose wheels are built for one build of torch, also if their version number stays the same."""
ASK = r"""
import importlib.metadata, json, re, sys
try:
    from pip._vendor.packaging.requirements import InvalidRequirement, Requirement
except ImportError:
    Requirement = None

def normalized(name):
    return re.sub(r"[-_.]+", "-", name).lower()

found = {}
for each in importlib.metadata.distributions():
    if each.metadata["Name"]:
        found.setdefault(normalized(each.metadata["Name"]), each)

def parsed(text):
    if Requirement is None:
        return None
    try:
        one = Requirement(text)
    except InvalidRequirement:
        name = re.match(r"\s*([A-Za-z0-9][\w.-]*)", text)
        return (normalized(name.group(1)), frozenset(), None) if name else None
    return normalized(one.name), frozenset(one.extras), one.marker

with open(sys.argv[1], encoding="utf-8") as file:
    wanted = json.load(file)
ours = set(wanted["ours"])
new = [pair[:2] for pair in map(parsed, wanted["roots"]) if pair]
new += [(name, frozenset()) for name, each in found.items() if name not in ours or each.read_text("direct_url.json")]
needed = set()
while new:
    pair = new.pop()
    if pair in needed or pair[0] not in found:
        continue
    needed.add(pair)
    for text in found[pair[0]].requires or ():
        one = parsed(text)
        if one and (one[2] is None or any(one[2].evaluate({"extra": extra}) for extra in ("", *pair[1]))):
            new.append(one[:2])
kept = {name for name, _ in needed}
surplus = sorted(name for name in found if name in ours and name not in kept and Requirement)

def files(name):
    return {str(path) for path in found[name].files or ()}

shared = set().union(*map(files, kept)) if surplus else set()
surplus = [name for name in surplus if not files(name) & shared]
print(json.dumps({"installed": {name: each.version for name, each in found.items()}, "surplus": surplus}))
"""


@dataclass(frozen=True)
class Contents:
    """The packages of a venv with their versions, and those that the requirements do not need."""

    installed: Mapping[str, str]
    surplus: Sequence[str]


def foreign_packages(venv: Venv, mark: Mapping[str, Any]) -> List[str]:
    """Return the packages of the venv that halfstep did not install. They are never removed.

    `mark` is the mark file. It contains them during an installation, and halfstep's own packages after the first
    installation. If it contains neither, an older halfstep wrote it, and all packages count as foreign.
    """
    if isinstance(mark.get("foreign"), list):
        return [str(name) for name in mark["foreign"]]
    return sorted(set(look(venv, (), ()).installed) - set(_packages_of(mark)) - set(KEPT))


def _packages_of(mark: Mapping[str, Any]) -> Mapping[str, str]:
    packages = mark.get("packages")
    return packages if isinstance(packages, dict) else {}


def look(venv: Venv, roots: Sequence[str], ours: Collection[str]) -> Contents:
    """Return the packages of the venv, and those of `ours` that no requirement of `roots` needs.

    Packages from a URL or a folder, and packages that share files with a needed package, are not among them.
    """
    question = os.path.join(venv.environment["TMPDIR"], "packages.json")
    write_atomic(question, dumps({"roots": [*roots, *KEPT], "ours": sorted(ours)}))
    printed = venv.run([venv.python, "-c", ASK, question], "the packages could not be listed")
    answer: Dict[str, Any] = json.loads(printed.splitlines()[-1])
    return Contents(answer["installed"], answer["surplus"])


def remove_surplus(venv: Venv, roots: Sequence[str], foreign: Collection[str]) -> Mapping[str, str]:
    """Uninstall halfstep's packages that the requirements `roots` do not need. Return the packages that remain."""
    installed = look(venv, (), ()).installed
    surplus = look(venv, [*roots, *BUILD_TOOLS], set(installed) - set(foreign)).surplus
    if surplus:
        uninstall(venv, surplus)
        shown = ", ".join(surplus[:SHOWN]) + (f" and {len(surplus) - SHOWN} more" if len(surplus) > SHOWN else "")
        where = os.path.basename(venv.path)
        venv.call.push({"note": f"removed from {where}, because the requirements do not need them: {shown}"})
    return {name: version for name, version in installed.items() if name not in surplus}


def uninstall(venv: Venv, packages: Sequence[str]) -> None:
    """Uninstall the packages."""
    argv = [venv.python, *PIP, "uninstall", "--yes", *packages]
    venv.run(argv, f"{', '.join(packages)} could not be removed")


def outdated_companions(installed: Mapping[str, str], mark: Mapping[str, Any]) -> List[str]:
    """Return the installed torchaudio, torchvision and torchcodec that halfstep installed beside another torch."""
    before = _packages_of(mark)
    if not before.get("torch") or before["torch"] == installed.get("torch"):
        return []
    return [name for name in WITH_TORCH if name in installed and before.get(name) == installed[name]]
