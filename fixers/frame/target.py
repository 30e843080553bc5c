"""The target of a rewrite: the card, the installed packages and the configured fixer settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fixers.frame.code_facts import CodeFacts
from fixers.frame.pins import installed_in, nearest_pins
from fixers.sources.lines import strings_of_notebook
from remote.protocol.dataclass import dataclass, field
from remote.protocol.machine import Gpu
from remote.protocol.text import version_numbers


@dataclass(frozen=True)
class Target:
    """Everything that a rewrite depends on, except the file.

    `packages`: installed or pinned versions by package. `settings`: the config's `fixers:` entries. `code_facts`: facts
    about the project's Python code. `started`: files that the config's command names. `pins`: for the
    files below each folder, the newest allowed version of each package. `on_host`: `packages` are those of a host.
    """

    card: Gpu | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    code_facts: CodeFacts = field(default_factory=CodeFacts)
    started: tuple[str, ...] = ()
    pins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    on_host: bool = False

    def at(self, path: str, data: bytes = b"") -> Target:
        """Return the target for one file, with the package versions that the nearest requirements file allows.

        `data`: the content of the file. The versions that a notebook itself installs take precedence.
        """
        pins = nearest_pins(self.pins, path)
        if path.endswith(".ipynb") and not self.on_host:
            pins |= installed_in(strings_of_notebook(data))
        return replace(self, packages={**self.packages, **pins}) if pins else self

    def below(self, capability: tuple[int, int]) -> bool:
        """Return True if the card is known and its compute capability is below `capability`."""
        return self.card is not None and tuple(self.card.capability) < capability

    def at_least(self, package: str, version: tuple[int, ...]) -> bool | None:
        """Return True if the package has at least this version, or None if its version is unknown."""
        installed = self.packages.get(package)
        if installed is None:
            return None
        return version_numbers(installed)[:3] >= version
