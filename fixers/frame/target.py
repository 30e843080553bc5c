"""What a rewrite is for: the card, the packages installed there, and what the config wishes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fixers.frame.own_settings import OwnSettings
from remote.protocol.machine import Gpu


@dataclass(frozen=True)
class Target:
    """The same target and the same bytes always give the same rewrite. `packages` are versions by name, where known.

    `own` is what the project's own Python reads of its settings.
    """

    card: Gpu | None = None
    packages: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    own: OwnSettings = field(default_factory=OwnSettings)

    def below(self, capability: tuple[int, int]) -> bool:
        """The card is known and older than that."""
        return self.card is not None and tuple(self.card.capability) < capability

    def at_least(self, package: str, version: tuple[int, ...]) -> bool | None:
        """That package is installed in that version or a newer one; None where nobody has looked."""
        installed = self.packages.get(package)
        if installed is None:
            return None
        return tuple(int(number) for number in re.findall(r"\d+", installed)[:3]) >= version
