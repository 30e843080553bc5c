"""A run's event files followed while it trains: every new record is in the mirror before anybody here hears of it."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from remote.errors import PullRefused
from remote.host import Host, Json
from remote.protocol.events import Scalar, read_scalars
from remote.protocol.layout import ProjectLayout
from remote.pull.events import is_event_name
from remote.pull.folder import Folder
from remote.pull.mirror import Landed, Mirror
from remote.pull.names import REPLACED, NameJudge
from remote.pull.patience import RetryPolicy, follow_on


@dataclass(frozen=True)
class NewRecords:
    """Whole records that were just appended to the file at `path`; `name` is the host's name of it."""

    name: str
    path: Path
    records: bytes


def follow_events(
    host: Host,
    project_key: str,
    run: str,
    destination: Path,
    *,
    job: int = 0,
    patience: RetryPolicy | None = None,
) -> Iterator[NewRecords]:
    """Every record the host has and the mirror has not, each once, until the job (0: the newest) has ended.

    A lost line is found again at the same offsets. Raises DiskFull and what the host raises when patience ends.
    """
    with Folder(destination) as folder:
        live = _Live(folder, Mirror(folder))

        def args() -> Json:
            root = ProjectLayout(project_key).run(run).root
            return {"run": root, "job": job, "wants": live.mirror.wants(live.names())}

        for event in follow_on(host, "follow.events", args, patience or RetryPolicy()):
            new = live.take(event)
            if new is not None:
                yield new


def tail_scalars(
    host: Host,
    project_key: str,
    run: str,
    destination: Path,
    *,
    job: int = 0,
    history: bool = True,
    patience: RetryPolicy | None = None,
) -> Iterator[Scalar]:
    """The scalars of a run, first those that are here already (`history`), then new ones as they are written there."""
    if history:
        yield from mirrored_scalars(destination)
    for new in follow_events(host, project_key, run, destination, job=job, patience=patience):
        yield from read_scalars(new.records, new.name)


def mirrored_scalars(destination: Path) -> Iterator[Scalar]:
    """The scalars of every event file here, file by file, replaced ones too; nothing is asked of the host."""
    if not destination.is_dir():
        return
    with Folder(destination) as folder:
        mirror = Mirror(folder)
        for name in local_names(destination):
            for part in mirror.records(name):
                yield from read_scalars(part, name)


def local_names(destination: Path) -> list[str]:
    """The event files that lie in a mirror, sorted."""
    found = [Path(root, leaf) for root, _, leaves in os.walk(destination) for leaf in leaves]
    return sorted(path.relative_to(destination).as_posix() for path in found if is_event_name(path.name))


class _Live:
    """What is followed: names judged as they come, bytes into the mirror."""

    def __init__(self, folder: Folder, mirror: Mirror) -> None:
        self._folder = folder
        self.mirror = mirror
        self._judge = NameJudge()
        self._reasons: dict[str, str] = {}
        for name in local_names(folder.path):
            if REPLACED not in name:
                self._judged(name)

    def names(self) -> list[str]:
        """The names that may be followed."""
        return [name for name, reason in self._reasons.items() if not reason]

    def take(self, event: Json) -> NewRecords | None:
        """What one message of the host added; nothing where it was known already or may not be taken."""
        try:
            name, offset, data = str(event["name"]), int(event["offset"]), base64.b64decode(event["data"])
        except (KeyError, TypeError, ValueError, binascii.Error):
            return None
        if self._judged(name):
            return None
        try:
            landed = self.mirror.append(name, offset, data, fresh=bool(event.get("fresh")))
        except PullRefused as refusal:
            self._reasons[name] = refusal.message
            return None
        return self._new(name, landed, data)

    def _judged(self, name: str) -> str:
        """Why records of that name are not taken, or nothing."""
        if name not in self._reasons:
            self._reasons[name] = self._judge.reason(name) if is_event_name(name) else "not an event file"
        return self._reasons[name]

    def _new(self, name: str, landed: Landed, data: bytes) -> NewRecords | None:
        if not landed.added_bytes:
            return None
        return NewRecords(name, self._folder.path / landed.local, data[len(data) - landed.added_bytes :])
