"""Follow a run's event files during training. Every new record is written to the mirror before it is reported."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from remote.errors import PullRefused
from remote.host import Host, Json, decode_answer
from remote.protocol.dataclass import dataclass
from remote.protocol.events import Scalar, read_scalars
from remote.protocol.layout import ProjectLayout
from remote.protocol.values import Malformed, Verbatim
from remote.pull.events import is_event_name, is_offered_name
from remote.pull.folder import Folder
from remote.pull.mirror import Appended, Mirror
from remote.pull.names import REPLACED, NameJudge
from remote.pull.reconnect import RetryPolicy, follow_on
from remote.pull.thinned import thinned


@dataclass(frozen=True)
class NewRecords:
    """Complete records that were just appended to the file at `path`. `name` is the file's name on the host."""

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
    retry: RetryPolicy | None = None,
) -> Iterator[NewRecords]:
    """Yield each record that is not yet in the mirror, until the job (0: the newest) ends.

    After a lost connection, the stream continues at the offset that each file has reached. Raises DiskFull, and the
    host's errors when the retries of `retry` are exhausted.
    """
    with Folder(destination) as folder:
        live = _Live(folder, Mirror(folder))

        def args() -> Json:
            root = ProjectLayout(project_key).run(run).root
            return {"run": root, "job": job, "wants": live.mirror.wants(live.names())}

        for event in follow_on(host, "follow.events", args, retry or RetryPolicy()):
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
    since_unix: float | None = None,
    retry: RetryPolicy | None = None,
) -> Iterator[tuple[Scalar, ...]]:
    """Yield a run's scalars in batches: first the scalars in the mirror, thinned and by time, then each new scalar.

    `since_unix` is a time of the host's clock; earlier scalars are left out.
    """
    if since_unix is None:
        yield tuple(sorted(thinned(mirrored_scalars(destination)), key=lambda scalar: scalar.wall_time))
    for new in follow_events(host, project_key, run, destination, job=job, retry=retry):
        scalars = read_scalars(new.records, new.name)
        yield tuple(one for one in scalars if since_unix is None or one.wall_time >= since_unix)


def mirrored_scalars(destination: Path) -> Iterator[Scalar]:
    """Yield the scalars of all local event files, including files that were replaced on the host.

    Reads only local files.
    """
    if not destination.is_dir():
        return
    with Folder(destination) as folder:
        mirror = Mirror(folder)
        for name in local_names(destination):
            for part in mirror.records(name):
                yield from read_scalars(part, name)


def local_names(destination: Path) -> list[str]:
    """List the event files in a mirror, sorted."""
    names = [Path(root, leaf) for root, _, leaves in os.walk(destination) for leaf in leaves]
    return sorted(path.relative_to(destination).as_posix() for path in names if is_event_name(path.name))


@dataclass(frozen=True)
class _Piece:
    """Records of one event file, and their offset. `fresh` is True if the file was replaced on the host."""

    name: Verbatim
    offset: int
    data: bytes
    fresh: bool = False


class _Live:
    """The files that are followed. Validates each new name, and writes data to the mirror.

    Of a refused name, only the digest is kept, because the host chooses its length. Refused names are counted too.
    """

    def __init__(self, folder: Folder, mirror: Mirror) -> None:
        self._folder = folder
        self.mirror = mirror
        self._judge = NameJudge()
        self._accepted: dict[str, None] = {}
        self._refused: set[bytes] = set()
        for name in local_names(folder.path):
            if REPLACED not in name:
                self._is_accepted(name)

    def names(self) -> list[str]:
        """Return the accepted names."""
        return list(self._accepted)

    def take(self, event: Json) -> NewRecords | None:
        """Return the records that one message added, or None if the records exist in the mirror or are refused."""
        try:
            piece = decode_answer(_Piece, event)
        except Malformed:
            return None
        name, data = piece.name, piece.data
        if not self._is_accepted(name):
            return None
        try:
            landed = self.mirror.append(name, piece.offset, data, fresh=piece.fresh)
        except PullRefused:
            del self._accepted[name]
            self._refused.add(_digest(name))
            return None
        return self._new_records(name, landed, data)

    def _is_accepted(self, name: str) -> bool:
        """Return True if records of the file `name` are wanted. Raises PullRefused for more than 10,000 names."""
        if name in self._accepted:
            return True
        if _digest(name) in self._refused:
            return False
        if is_offered_name(name) and not self._judge.reason(name):
            self._accepted[name] = None
            return True
        if not is_offered_name(name):
            self._judge.count()
        self._refused.add(_digest(name))
        return False

    def _new_records(self, name: str, landed: Appended, data: bytes) -> NewRecords | None:
        if not landed.added_bytes:
            return None
        return NewRecords(name, self._folder.path / landed.local, data[len(data) - landed.added_bytes :])


def _digest(name: str) -> bytes:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
