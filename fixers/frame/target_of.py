"""The target of a site: its card, and package versions from the host or from the project's pins."""

from __future__ import annotations

import re
from posixpath import normpath

from fixers.frame.site import Site
from fixers.frame.target import Target

REQUIREMENTS = ("requirements.txt", "requirements/train.txt", "requirements/base.txt")
PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(==|<=|<|~=)\s*([0-9][0-9.]*)", re.MULTILINE)


def target_of(site: Site) -> Target:
    """Return the target with the host's installed versions, else the newest that the project's requirements allow."""
    survey = site.survey
    installed = survey.interpreter.packages if survey is not None else {}
    return Target(site.gpu, installed or pinned_packages(site), site.settings, started=started_by(site))


def started_by(site: Site) -> tuple[str, ...]:
    """Return the paths of files that the config's command names, also as modules: `python -m tools.export`."""
    command = site.config.get("command") or ()
    words = command.split() if isinstance(command, str) else [str(word) for word in command]
    names = {normpath(word) for word in words} | {f"{word.replace('.', '/')}.py" for word in words}
    return tuple(sorted(names & set(site.tree.paths()))) if names else ()


def pinned_packages(site: Site) -> dict[str, str]:
    """Return the upper bounds of version pins in the project's requirements files."""
    paths = set(site.tree.paths())
    pins: dict[str, str] = {}
    for path in REQUIREMENTS:
        if path in paths:
            pins.update(parse_pins(site.tree.read(path).decode("utf-8", "replace")))
    return pins


def parse_pins(text: str) -> dict[str, str]:
    """Parse pins such as `{"transformers": "4.46.1"}` of a requirements file; `<5` means the version just below."""
    pins: dict[str, str] = {}
    for name, relation, version in PIN.findall(text):
        pins[name.lower().replace("_", "-")] = _just_below(version) if relation == "<" else version
    return pins


def _just_below(version: str) -> str:
    numbers = [int(number) for number in version.split(".") if number]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    numbers[-1] -= 1
    return ".".join(str(max(number, 0)) for number in [*numbers, 999])
