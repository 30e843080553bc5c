"""Bringing a run's TensorBoard files home: one exchange for all of them, append-only, whole records only."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from remote.errors import HalfstepError, PullRefused
from remote.host import Host, Json
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.jobs import EventFile
from remote.protocol.layout import ProjectLayout
from remote.protocol.records import LENGTH, OVERHEAD, Ending
from remote.pull.folder import Folder
from remote.pull.mirror import EventMirror, Want
from remote.pull.names import judge_names
from remote.pull.report import PulledFile, PulledState, PullReport
from remote.pull.segments import SegmentReader

REASONS = {
    Ending.TORN: "its last record is still being written",
    Ending.ZEROS: "waiting: zeros where the next record will be",
    Ending.BAD_LENGTH: "the length of a record is damaged",
    Ending.TOO_LONG: "a record claims to be longer than 64 MiB",
    Ending.BAD_DATA: "the data of a record is damaged",
}


def pull_events(
    host: Host, project_key: str, run: str, files: Iterable[EventFile], destination: Path, *, outside: str = ""
) -> PullReport:
    """Every event file that the host offers lies under `destination`, as far as it is whole records.

    A name that may not be written here, or a file that cannot be read, is left out with its reason; the others come.
    Raises DiskFull, Busy, PullRefused (10,000 files, or an answer that is none) and what the host raises.
    """
    offered = {file.name: file for file in files}
    names = judge_names(offered)
    refused = [PulledFile(name, destination, PulledState.REFUSED, reason=reason) for name, reason in names.refused]
    if not names.accepted:
        return PullReport(tuple(refused))
    with Folder(destination) as folder:
        pull = _Pull(folder, EventMirror(folder))
        pull.prepare(names.accepted)
        wants = [want for want in pull.wants if not _same(folder, pull.mirror.local(want[0]), offered[want[0]])]
        if wants:
            args = {"run": ProjectLayout(project_key).run(run).root, "wants": wants, "outside": outside}
            answer = pull.fetch(host, args, wants)
            pull.judge(wants, answer)
        folder.sync()
        return PullReport((*(pull.told(name) for name in names.accepted), *refused))


def check_mirror(files: Iterable[EventFile], destination: Path) -> Report:
    """Whether every event file is here whole: sizes and first records agree with what the host surveyed."""
    offered = {file.name: file for file in files}
    names = judge_names(offered)
    missing: list[str] = []
    if not destination.is_dir():
        missing = [name for name in names.accepted if offered[name].size_bytes]
    else:
        with Folder(destination) as folder:
            mirror = EventMirror(folder)
            missing = [name for name in names.accepted if not _same(folder, mirror.newest(name), offered[name])]
    return Report(
        tuple(
            Finding("logs-incomplete", Severity.ERROR, f"{name} is not here whole", where=str(destination / name))
            for name in missing
        )
    )


@dataclass
class _Pull:
    """One exchange at work."""

    folder: Folder
    mirror: EventMirror
    wants: list[Want] = field(default_factory=list)
    offsets: dict[str, int] = field(default_factory=dict)
    added: dict[str, int] = field(default_factory=dict)
    states: dict[str, tuple[PulledState, str]] = field(default_factory=dict)

    def prepare(self, names: Iterable[str]) -> None:
        """Where each file goes on; one whose place here is taken by something else is skipped."""
        for name in names:
            try:
                self.wants.extend(self.mirror.wants([name]))
            except PullRefused as refusal:
                self.states[name] = (PulledState.SKIPPED, refusal.message)
        self.offsets = {name: offset for name, offset, _ in self.wants}

    def fetch(self, host: Host, args: Json, wants: list[Want]) -> Json:
        """The host's answer; its records are in the mirror. An error that is not one file's own ends the connection."""
        reader = SegmentReader()

        def sink(chunk: bytes) -> None:
            try:
                for segment in reader.feed(chunk):
                    if segment.index >= len(wants):
                        raise PullRefused(f"the host sent a file that was not asked for (number {segment.index})")
                    self._land(wants[segment.index][0], segment.records, segment.fresh)
            except HalfstepError:
                host.close()
                raise

        return host.fetch("events.read", args, sink)

    def _land(self, name: str, records: bytes, fresh: bool) -> None:
        if name in self.states:
            return
        offset = 0 if fresh else self.offsets[name]
        try:
            landed = self.mirror.append(name, offset, records, fresh=fresh)
        except PullRefused as refusal:
            self.states[name] = (PulledState.SKIPPED, refusal.message)
            return
        self.offsets[name] = offset + len(records)
        self.added[name] = self.added.get(name, 0) + landed.added_bytes

    def judge(self, wants: list[Want], answer: Json) -> None:
        """The state of each file from what the host said about its end."""
        rows = answer.get("files")
        if not isinstance(rows, list) or len(rows) != len(wants):
            raise PullRefused("the host did not say how its files ended")
        for (name, _, _), row in zip(wants, rows, strict=True):
            if name not in self.states:
                self.states[name] = _judge_row(row, self.offsets[name])

    def told(self, name: str) -> PulledFile:
        state, reason = self.states.get(name, (PulledState.WHOLE, ""))
        local = self.mirror.local(name)
        return PulledFile(
            name, self.folder.path / local, state, self.offsets.get(name, 0), self.added.get(name, 0), reason
        )


def _judge_row(row: Any, size_bytes: int) -> tuple[PulledState, str]:
    if not isinstance(row, dict) or row.get("ending") not in {ending.value for ending in Ending}:
        reason = row.get("reason", "") if isinstance(row, dict) else ""
        return PulledState.SKIPPED, str(reason) or "the host could not read it"
    ending = Ending(row["ending"])
    if ending is Ending.CLEAN:
        return (PulledState.WHOLE, "") if size_bytes else (PulledState.WAITING, "it has no record yet")
    if not ending.damaged:
        return PulledState.WAITING, REASONS[ending]
    if not size_bytes:
        return PulledState.SKIPPED, f"{REASONS[ending]}, at its first byte"
    return PulledState.DAMAGED, f"{REASONS[ending]}, at byte {size_bytes}; all before it is here"


def _same(folder: Folder, local: str, file: EventFile) -> bool:
    """What is here has the size and the first record of what the host surveyed."""
    with folder.reading(local) as fd:
        if fd is None:
            return file.size_bytes == 0 and not file.head_sha256
        if os.fstat(fd).st_size != file.size_bytes or file.size_bytes < OVERHEAD:
            return False
        (length,) = LENGTH.unpack(os.pread(fd, LENGTH.size, 0))
        return hashlib.sha256(os.pread(fd, min(OVERHEAD + length, file.size_bytes), 0)).hexdigest() == file.head_sha256
