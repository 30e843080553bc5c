"""The plan of each file, before the programs are proved to work with it, and what the plan was computed from."""

from __future__ import annotations

from collections.abc import Sequence

from fixers.frame.change import Plan
from fixers.frame.modules import Module
from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.plans.file_facts import FileFacts
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Offer:
    """The plan of the fixers `sources` for each of the files. `target` has the values that the files read."""

    plan: Plan
    target: Target
    files: Sequence[FileFacts]
    sources: Sequence[SourceFixer]

    @property
    def modules(self) -> list[Module]:
        return [each.module for each in self.files if each.module]
