"""Extend the files of a mirror with one request: request new data, append it, and report each file's state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from remote.errors import PullRefused
from remote.host import Host, Json, decode_answer
from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier, Message
from remote.protocol.records import Ending
from remote.protocol.values import Malformed
from remote.pull.folder import Folder
from remote.pull.mirror import MAX_TOTAL_BYTES, Mirror, Want
from remote.pull.report import PulledFile, PulledState
from remote.pull.segments import Segment, receive

REASONS = {
    Ending.TORN: "its last record is still being written",
    Ending.ZEROS: "waiting: zeros where the next record will be",
    Ending.BAD_LENGTH: "the length of a record is damaged",
    Ending.TOO_LONG: "a record is longer than 64 MiB",
    Ending.BAD_DATA: "the data of a record is damaged",
}


@dataclass(frozen=True)
class SentFile:
    """The host's state of one file. `ending` is a value of Ending, or "" if the host could not read the file."""

    ending: Identifier = ""
    fresh: bool = False
    reason: Message = ""


@dataclass
class Transfer:
    """The files that are copied into `mirror`, by their names on the host."""

    folder: Folder
    mirror: Mirror
    wants: list[Want] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    states: dict[str, tuple[PulledState, str]] = field(default_factory=dict)

    def prepare(self, names: Iterable[str]) -> None:
        """Find the offset from which each file is requested. Skip a file if its local path is a folder or link."""
        for name in names:
            try:
                self.wants.extend(self.mirror.wants([name]))
            except PullRefused as refusal:
                self.states[name] = (PulledState.SKIPPED, refusal.message)
        self.offsets = {name: offset for name, offset, _ in self.wants}

    def fetch(self, host: Host, op: str, args: Json, wants: list[Want]) -> Json:
        """Write the data to the mirror and return the host's answer.

        An error that affects all files closes the connection.
        """

        def write(segment: Segment) -> None:
            self._write(wants[segment.index][0], segment.data, segment.fresh)

        return receive(host, op, args, len(wants), write, limit=MAX_TOTAL_BYTES)

    def _write(self, name: str, data: bytes, fresh: bool) -> None:
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
        """Derive each file's state from the host's answer. Raises PullRefused for a malformed answer."""
        rows = answer.get("files")
        if not isinstance(rows, list) or len(rows) != len(wants):
            raise PullRefused("the host's answer lacks the state of its files")
        for (name, _, _), row in zip(wants, rows, strict=True):
            if name not in self.states:
                self.states[name] = judge_row(row, self.offsets[name])

    def result(self, name: str) -> PulledFile:
        """Return the result for one file."""
        state, reason = self.states.get(name, (PulledState.WHOLE, ""))
        path = self.folder.path / self.mirror.local(name)
        return PulledFile(name, path, state, self.offsets.get(name, 0), self.added.get(name, 0), reason)


def judge_row(row: Any, size_bytes: int) -> tuple[PulledState, str]:
    """Return the state of a file and its reason from the host's answer. The local copy has `size_bytes` bytes."""
    try:
        sent = decode_answer(SentFile, row)
        ending = Ending(sent.ending)
    except Malformed:
        return PulledState.SKIPPED, "the host's answer for it is malformed"
    except ValueError:
        return PulledState.SKIPPED, sent.reason or "the host could not read it"
    if sent.fresh:
        return PulledState.WAITING, "it was replaced on the host by a file that has no record yet"
    if ending is Ending.CLEAN:
        return (PulledState.WHOLE, "") if size_bytes else (PulledState.WAITING, "it has no record yet")
    if not ending.damaged:
        return PulledState.WAITING, REASONS[ending]
    if not size_bytes:
        return PulledState.SKIPPED, f"{REASONS[ending]}, at its first byte"
    return PulledState.DAMAGED, f"{REASONS[ending]}, at byte {size_bytes}; everything before it was pulled"
