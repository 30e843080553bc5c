"""From a site to a target: the card, and package versions as the host told them or as the project pins them."""

from __future__ import annotations

import re

from fixers.frame.site import Site
from fixers.frame.target import Target

REQUIREMENTS = ("requirements.txt", "requirements/train.txt", "requirements/base.txt")
PIN = re.compile(r"^\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*(==|<=|<|~=)\s*([0-9][0-9.]*)", re.MULTILINE)


def target_of(site: Site) -> Target:
    """What the site's host says is installed; else the newest versions that the project's requirements allow."""
    survey = site.survey
    asked = survey.interpreter.packages if survey is not None and survey.interpreter.packages else None
    packages = asked if asked is not None else pinned_packages(site)
    return Target(site.gpu, packages, site.settings)


def pinned_packages(site: Site) -> dict[str, str]:
    """Upper ends of the pins in the project's requirements files; what is not pinned is not known."""
    paths = set(site.tree.paths())
    pins: dict[str, str] = {}
    for path in REQUIREMENTS:
        if path in paths:
            pins.update(parse_pins(site.tree.read(path).decode("utf-8", "replace")))
    return pins


def parse_pins(text: str) -> dict[str, str]:
    """`{"transformers": "4.46.1"}` from lines of a requirements file; `<5` is taken as the version just below."""
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
