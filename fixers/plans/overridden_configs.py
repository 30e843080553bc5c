"""Find configs of Accelerate whose mixed precision has no effect, because every command with them passes its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from posixpath import basename

from fixers.frame.change import FileChange, SkippedPlace
from fixers.plans.proof import Proof
from fixers.settings.known_formats import is_of_accelerate
from fixers.sources.launched import Launched

OVERRIDDEN = "configs whose mixed precision every command overrides"
OPTION = "mixed_precision"
FIXERS = {"mixed-precision-config"}


def without_overridden(proof: Proof, changes: Mapping[str, FileChange], launched: Sequence[Launched]) -> Proof:
    """Return the proof that also withholds the changes of such configs."""
    found = sorted(
        path for path, each in changes.items() if _is_overridden(each, launched) and path not in proof.withheld
    )
    places = tuple(SkippedPlace(path, OVERRIDDEN) for path in found)
    return replace(proof, withheld=proof.withheld | {*found}, skipped=proof.skipped + places)


def _is_overridden(change: FileChange, launched: Iterable[Launched]) -> bool:
    if not change.fixers.keys() <= FIXERS or not is_of_accelerate(change.path, change.before):
        return False
    naming = [each for each in launched if basename(each.config) == basename(change.path)]
    return bool(naming) and all(OPTION in each.options for each in naming)
