"""Reasons why a program fails if a file that it shares with other programs no longer selects FlashAttention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from posixpath import dirname

from fixers.frame.change import FileChange
from fixers.frame.code_traits import Traits
from fixers.plans.doubts import Doubt
from fixers.plans.neutral_changes import is_unneeded
from fixers.plans.owners import Owners
from fixers.plans.program_attention import needed_places, replaces_flash
from fixers.plans.programs import Program
from fixers.sources.flash_only import NOT_REPLACED, FlashOnly
from fixers.sources.flash_requirements import NO_ALTERNATIVE, REQUIRED
from fixers.sources.splice import line_of

ALWAYS = (REQUIRED, NO_ALTERNATIVE)
"""Places that fail with every other attention, also if the project selects it."""

HUB_CODE = b"trust_remote_code"
WITHOUT_SDPA = re.compile(rb"phi-3(?:\.5)?-vision", re.IGNORECASE)
"""Matches names of checkpoints whose own code has no SDPA: `_supports_sdpa = False` in their modeling_phi3_v.py. Their
config.json may select FlashAttention again, whatever the argument of `from_pretrained`."""
LACKS = "{where} may load a checkpoint whose own code has no SDPA, and whose config selects FlashAttention"


def of_attention(program: Program, traits: Traits, own: Iterable[FileChange], owners: Owners) -> Iterator[Doubt]:
    """Yield a doubt for each reached place that fails without FlashAttention.

    Most places fail only because a change selects another attention. Their doubts name the file of the change: it is
    not changed for any program, because a later plan would not find the doubt again.
    """
    for place in traits.flash_only:
        if place.why in ALWAYS and place.path in program.paths and _is_reached(place, program, owners):
            yield _doubt(place)
    for change in own:
        if replaces_flash(change) and not is_unneeded(change, program, owners.read):
            for place in needed_places(program, traits, (change.path,)):
                if _is_reached(place, program, owners):
                    yield _doubt(place, change.path)
            if where := _load_without_sdpa(change, owners):
                yield Doubt(LACKS.format(where=where), where, of_flash=True, edit=change.path)


def _load_without_sdpa(change: FileChange, owners: Owners) -> str:
    """Return the line that may load the code of a checkpoint without SDPA, which a text of the folder names, or ""."""
    at, folder = change.before.find(HUB_CODE), dirname(change.path)
    if at < 0 or not any(dirname(path) == folder and WITHOUT_SDPA.search(text) for path, text in owners.texts):
        return ""
    return f"{change.path}:{line_of(change.before, at)}"


def _doubt(place: FlashOnly, edit: str = "") -> Doubt:
    where = f"{place.path}:{place.line}"
    return Doubt(place.message.removeprefix(NOT_REPLACED), where, of_flash=True, edit=edit)


def _is_reached(place: FlashOnly, program: Program, owners: Owners) -> bool:
    is_python = place.path.endswith(".py") and place.line > 0
    return not is_python or owners.reach.runs_line(program, place.path, place.line)
