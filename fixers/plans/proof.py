"""The result of the proof of programs: what stays as it is, and the warnings that say why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fixers.frame.change import SkippedPlace
from fixers.frame.findings import warning
from fixers.plans.doubts import Doubt
from fixers.plans.rejected_commands import REJECTED
from fixers.sources.commands import reads_commands
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding

CHECK = "bf16-to-fp16"
NOT_TRAINING = "files that no training of the project runs"
UNSTARTED = "programs that stay in bfloat16, and that no command or document of the project starts"
OF_CONFIG = "commands with a config that stays in bfloat16"
ABSENT = "commands that start no training of the project"
LEFT = "this program stays in bfloat16, with its configs and commands: {reason}"
NEEDS_FLASH = "this program needs FlashAttention, which does not run on this card, and stays unchanged: {reason}"
HINT = "select float16 at this place by hand, then run the fixers again"
FLASH_HINT = "select another attention by hand, or train on a card with compute capability 8.0"


@dataclass(frozen=True)
class Proof:
    """The files whose changes are withheld, the warnings about programs, and the places that are not changed.

    `repeated`: findings about FlashAttention that the warnings about programs repeat. `agreeing`: files in which only
    the attention may change. `probing`: withheld files whose tests for bfloat16 change nevertheless. `doubted`: the
    entries of programs that stay in bfloat16.
    """

    withheld: frozenset[str] = frozenset()
    agreeing: frozenset[str] = frozenset()
    probing: frozenset[str] = frozenset()
    doubted: frozenset[str] = frozenset()
    repeated: frozenset[Finding] = frozenset()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[SkippedPlace, ...] = ()

    def withholds(self, path: str, fixers: set[str]) -> set[str]:
        """Return those of the fixers whose changes of the file are withheld."""
        if path in self.withheld:
            return fixers - {"bf16-probe"} if path in self.probing else fixers
        return fixers - {"attention-to-sdpa"} if path in self.agreeing else set()


def proof_of(
    outside: frozenset[str],
    held_back: frozenset[str],
    doubts: Mapping[str, Doubt],
    unsuited: frozenset[str],
    unstarted: frozenset[str],
    rejected: frozenset[str] = frozenset(),
) -> Proof:
    """Return the proof with the warnings about doubted programs, and the reason for each file that stays.

    `outside`: files that no training uses. `held_back`: files of doubted programs. `unsuited`: configs that keep
    bfloat16, and their commands. `unstarted`: doubted programs that nothing starts. `rejected`: commands that never
    start.
    """
    withheld = outside | held_back | rejected
    findings = _grouped({entry: each for entry, each in doubts.items() if entry not in unstarted})
    skipped = [SkippedPlace(path, ABSENT if reads_commands(path) else NOT_TRAINING) for path in sorted(outside)]
    skipped += [SkippedPlace(path, OF_CONFIG) for path in sorted(unsuited) if reads_commands(path)]
    skipped += [SkippedPlace(path, REJECTED) for path in sorted(rejected)]
    skipped += [SkippedPlace(path, UNSTARTED) for path in sorted(unstarted)]
    return Proof(withheld, findings=tuple(findings), skipped=tuple(skipped))


def _grouped(doubts: Mapping[str, Doubt]) -> list[Finding]:
    """Return one warning for each cause. The warning is reported at the first program with this cause."""
    groups: dict[str, list[str]] = {}
    for entry, doubt in sorted(doubts.items()):
        groups.setdefault(doubt.cause or doubt.reason, []).append(entry)
    return [_warning_of(entries, doubts[entries[0]]) for entries in groups.values()]


def _warning_of(entries: Sequence[str], doubt: Doubt) -> Finding:
    more = f"; the same holds for {', '.join(entries[1:4])}" if entries[1:] else ""
    more += f" and {len(entries) - 4} more" if entries[4:] else ""
    if doubt.of_flash:
        return warning("attention-to-sdpa", NEEDS_FLASH.format(reason=doubt.reason) + more, entries[0], FLASH_HINT)
    return warning(CHECK, LEFT.format(reason=doubt.reason) + more, entries[0], doubt.hint or HINT)
