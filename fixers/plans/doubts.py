"""The reasons why programs keep bfloat16, and their effect on the programs that share files with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from fixers.frame.change import FileChange
from fixers.plans.neutral_changes import is_neutral, is_unneeded
from fixers.plans.programs import Program
from remote.protocol.dataclass import dataclass, field


@dataclass(frozen=True)
class Doubt:
    """The reason why a program is not proved to work in float16, and the place in the code where it was found.

    `cause`: the entry of another program, if this doubt exists because both programs share a file; otherwise empty.
    `of_flash`: the program cannot run on this card, because it needs FlashAttention. Changes of files that it shares
    with other programs do not harm it. `edit`: the file whose change would cause the doubt; it is not changed for any
    program. `hint`: what to do, if selecting float16 by hand is not enough.
    """

    reason: str
    where: str
    cause: str = ""
    of_flash: bool = False
    edit: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Sharing:
    """The files that several programs share.

    If a file's change affects an unproved program that can run on this card, the file is not changed for any program.
    """

    attached: Mapping[str, tuple[Program, ...]]
    changes: Mapping[str, FileChange]
    read: Callable[[str], bytes]
    known: dict[tuple[str, str], bool] = field(default_factory=dict)

    def is_neutral(self, path: str, program: Program) -> bool:
        key = path, program.entry
        if key not in self.known:
            self.known[key] = is_neutral(self.changes[path], program, self.read)
        return self.known[key]

    def is_unneeded(self, path: str, program: Program) -> bool:
        return is_unneeded(self.changes[path], program, self.read)

    def with_shared_files(self, doubts: Mapping[str, Doubt]) -> dict[str, Doubt]:
        """Add a doubt for each program that needs a change which is withheld because of another program."""
        spread = dict(doubts)
        while True:
            new: dict[str, Doubt] = {}
            for path, entry in _edits(spread).items():
                reason = f"it shares {path} with {entry}, which needs FlashAttention"
                needing = self._needing(path, spread)
                new |= {each: Doubt(reason, path, entry, of_flash=True) for each in needing}
            for path, own in self.attached.items():
                doubted = self.holding_back(path, own, _unproved_on_card(spread)) if len(own) > 1 else None
                if doubted is not None:
                    reason = f"it shares {path} with {doubted}, which is not proved to work in float16"
                    new |= {each: Doubt(reason, path, doubted) for each in self._needing(path, spread)}
            if not new:
                return spread
            spread |= new

    def _needing(self, path: str, doubts: Collection[str]) -> list[str]:
        """Return the entries of the programs without doubts that need the change of the file."""
        free = (each for each in self.attached.get(path, ()) if each.entry not in doubts)
        return [each.entry for each in free if not self.is_unneeded(path, each)]

    def holding_back(self, path: str, own: Iterable[Program], doubts: Collection[str]) -> str | None:
        """Return the entry of a program that is not proved and that the file's change would affect, or None."""
        doubted = (each for each in own if each.entry in doubts)
        return next((each.entry for each in doubted if not self.is_neutral(path, each)), None)

    def held_back(self, doubts: Mapping[str, Doubt]) -> frozenset[str]:
        """Return the files whose changes are withheld.

        A change is withheld if it would cause a doubt, if all programs of the file are unproved, or if the change
        affects an unproved program that can run on this card. If a program of the file cannot run on this card, the
        change is also withheld if no proved program uses the changed code.
        """
        unproved = _unproved_on_card(doubts)
        return frozenset(_edits(doubts)) | frozenset(
            path
            for path, own in self.attached.items()
            if not self.proved_with(path, own, doubts) or self.holding_back(path, own, unproved) is not None
        )

    def proved_with(self, path: str, own: Iterable[Program], doubts: Mapping[str, Doubt]) -> bool:
        """Return True if the file belongs to a proved program.

        If the file also belongs to a program that cannot run on this card, a proved program must use the changed code.
        """
        proved = [each for each in own if each.entry not in doubts]
        if any(each.entry in doubts and doubts[each.entry].of_flash for each in own):
            return any(not self.is_unneeded(path, each) for each in proved)
        return bool(proved)


def _edits(doubts: Mapping[str, Doubt]) -> dict[str, str]:
    """Return the files whose changes would cause doubts, each with the entry of a program that these concern."""
    return {each.edit: entry for entry, each in sorted(doubts.items()) if each.edit}


def _unproved_on_card(doubts: Mapping[str, Doubt]) -> set[str]:
    """Return the entries of the unproved programs that can run on this card: no change may affect these programs."""
    return {entry for entry, doubt in doubts.items() if not doubt.of_flash}


def entries_of(programs: Iterable[Program]) -> set[str]:
    return {program.entry for program in programs}
