"""The target of a rewrite: the card, the installed packages and the configured fixer settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fixers.frame.code_facts import CodeFacts
from fixers.frame.pins import nearest_pins
from remote.protocol.machine import Gpu


@dataclass(frozen=True)
class Target:
    """Everything that a rewrite depends on, except the file. `packages` maps names to known versions.

    `own` are the settings that the project's own Python code reads or declares. `started` are the files that the
    config's command names. `pins` are the versions that requirements files of subfolders allow, by folder; they count
    for the files below.
    """

    card: Gpu | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    code_facts: CodeFacts = field(default_factory=CodeFacts)
    started: tuple[str, ...] = ()
    pins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def at(self, path: str) -> Target:
        """Return the target for one file: with the versions that the nearest requirements file above it allows."""
        nearest = nearest_pins(self.pins, path)
        return replace(self, packages={**self.packages, **nearest}) if nearest else self

    def below(self, capability: tuple[int, int]) -> bool:
        """Return True if the card is known and has a lower compute capability."""
        return self.card is not None and tuple(self.card.capability) < capability

    def at_least(self, package: str, version: tuple[int, ...]) -> bool | None:
        """Return True if the package has this version or a newer one; None if its version is not known."""
        installed = self.packages.get(package)
        if installed is None:
            return None
        return tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) >= version
