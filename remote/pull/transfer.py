"""One exchange that makes files of a mirror longer: what is asked for, what lands, how each file ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from remote.errors import PullRefused
from remote.host import Host, Json
from remote.protocol.records import Ending
from remote.pull.folder import Folder
from remote.pull.mirror import Mirror, Want
from remote.pull.report import PulledFile, PulledState
from remote.pull.segments import Segment, receive

REASONS = {
    Ending.TORN: "its last record is still being written",
    Ending.ZEROS: "waiting: zeros where the next record will be",
    Ending.BAD_LENGTH: "the length of a record is damaged",
    Ending.TOO_LONG: "a record claims to be longer than 64 MiB",
    Ending.BAD_DATA: "the data of a record is damaged",
}


@dataclass
class Transfer:
    """Files on their way into `mirror`, by the host's names."""

    folder: Folder
    mirror: Mirror
    wants: list[Want] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    states: dict[str, tuple[PulledState, str]] = field(default_factory=dict)

    def prepare(self, names: Iterable[str]) -> None:
        """It is known where each file goes on; one whose place here is taken by something else is skipped."""
        for name in names:
            try:
                self.wants.extend(self.mirror.wants([name]))
            except PullRefused as refusal:
                self.states[name] = (PulledState.SKIPPED, refusal.message)
        self.offsets = {name: offset for name, offset, _ in self.wants}

    def fetch(self, host: Host, op: str, args: Json, wants: list[Want]) -> Json:
        """The host's answer; its bytes are in the mirror. An error that is not one file's own ends the connection."""

        def land(segment: Segment) -> None:
            self._land(wants[segment.index][0], segment.data, segment.fresh)

        return receive(host, op, args, len(wants), land)

    def _land(self, name: str, data: bytes, fresh: bool) -> None:
        if name in self.states:
            return
        offset = 0 if fresh else self.offsets[name]
        try:
            landed = self.mirror.append(name, offset, data, fresh=fresh)
        except PullRefused as refusal:
            self.states[name] = (PulledState.SKIPPED, refusal.message)
            return
        self.offsets[name] = offset + len(data)
        self.added[name] = self.added.get(name, 0) + landed.added_bytes

    def judge(self, wants: list[Want], answer: Json) -> None:
        """The state of each file is known from what the host said about its end. Raises PullRefused."""
        rows = answer.get("files")
        if not isinstance(rows, list) or len(rows) != len(wants):
            raise PullRefused("the host did not say how its files ended")
        for (name, _, _), row in zip(wants, rows, strict=True):
            if name not in self.states:
                self.states[name] = judge_row(row, self.offsets[name])

    def told(self, name: str) -> PulledFile:
        """What became of one file."""
        state, reason = self.states.get(name, (PulledState.WHOLE, ""))
        path = self.folder.path / self.mirror.local(name)
        return PulledFile(name, path, state, self.offsets.get(name, 0), self.added.get(name, 0), reason)


def judge_row(row: Any, size_bytes: int) -> tuple[PulledState, str]:
    """What the host's word about the end of a file means, `size_bytes` of it being here."""
    if not isinstance(row, dict) or row.get("ending") not in {ending.value for ending in Ending}:
        reason = row.get("reason", "") if isinstance(row, dict) else ""
        return PulledState.SKIPPED, str(reason) or "the host could not read it"
    ending = Ending(row["ending"])
    if row.get("fresh"):
        return PulledState.WAITING, "it was replaced on the host by one that has no record yet"
    if ending is Ending.CLEAN:
        return (PulledState.WHOLE, "") if size_bytes else (PulledState.WAITING, "it has no record yet")
    if not ending.damaged:
        return PulledState.WAITING, REASONS[ending]
    if not size_bytes:
        return PulledState.SKIPPED, f"{REASONS[ending]}, at its first byte"
    return PulledState.DAMAGED, f"{REASONS[ending]}, at byte {size_bytes}; all before it is here"
