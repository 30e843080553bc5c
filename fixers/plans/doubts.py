"""Reasons why training programs are not proved to work in float16, and the warnings about these programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fixers.frame.findings import warning
from remote.protocol.findings import Finding

CHECK = "bf16-to-fp16"
LEFT = "this program stays in bfloat16, with its configs and commands: {reason}"
HINT = "select float16 at this place by hand, then run the fixers again"


@dataclass(frozen=True)
class Doubt:
    """The reason why a program is not proved to work in float16, and the place in the code where it was found.

    `cause`: the entry of another program, if this doubt exists because both programs share a file; otherwise empty.
    """

    reason: str
    where: str
    cause: str = ""


def warnings_of(doubts: Mapping[str, Doubt]) -> list[Finding]:
    """Return one warning for each cause. The warning is reported at the first program with this cause."""
    groups: dict[str, list[str]] = {}
    for entry, doubt in sorted(doubts.items()):
        groups.setdefault(doubt.cause or doubt.reason, []).append(entry)
    return [_warning_of(entries, doubts[entries[0]]) for entries in groups.values()]


def _warning_of(entries: Sequence[str], doubt: Doubt) -> Finding:
    more = f"; the same holds for {', '.join(entries[1:4])}" if entries[1:] else ""
    more += f" and {len(entries) - 4} more" if entries[4:] else ""
    return warning(CHECK, LEFT.format(reason=doubt.reason) + more, entries[0], HINT)
