"""Send large data to a host. The data is sent once, stored under its digest, and resumed after a lost connection."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from remote.errors import SyncRefused
from remote.host import Host, read_answer
from remote.project.data import DataScan
from remote.project.included_files import shown
from remote.protocol.tree import DataReceived, DataSurvey
from remote.sync.background_packing import pack_in_background
from remote.sync.retry import retry_lost_connection
from remote.sync.room import require_room
from remote.sync.stream import Progress, file_pieces, pack_head


def send_data(
    host: Host,
    scan: DataScan,
    project: str,
    *,
    progress: Progress | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> str:
    """Send the missing part of the data, and return the absolute path of its folder on the host.

    After a lost connection the transfer is resumed, up to five times. Raises the same errors as `sync_project`.
    """
    return retry_lost_connection(host, lambda _: _send(host, scan, project, progress), wait)


def _send(host: Host, scan: DataScan, project: str, progress: Progress | None) -> str:
    request = {"project": project, "digest": scan.digest}
    survey = read_answer(DataSurvey, host, host.ask("data.survey", request))
    if survey.path:
        return survey.path
    have = survey.have
    offsets = {name: have.get(name, 0) if have.get(name, 0) <= size else 0 for name, (_, size) in scan.files.items()}
    require_room(host, scan.size_bytes - sum(offsets.values()), survey.free_bytes)
    head = pack_head({"files": [[name, *known, offsets[name]] for name, known in scan.files.items()]})
    stream = pack_in_background(_pieces(head, scan, offsets, progress), "zlib", lambda: host.in_flight)
    answer = read_answer(DataReceived, host, host.send("data.receive", {**request, "codec": "zlib"}, stream))
    if answer.torn:
        name = answer.torn[0]
        raise SyncRefused(f"{name!r} changed while it was being sent", where=shown(name), hint="run the command again")
    return answer.path


def _pieces(
    head: bytes, scan: DataScan, offsets: Mapping[str, int], progress: Progress | None
) -> Iterator[tuple[bytes, bool]]:
    yield head, False
    done = sum(offsets.values())
    for name, (_, size) in scan.files.items():
        for piece in file_pieces(partial(scan.opened, name), size - offsets[name], start=offsets[name]):
            yield piece
            done += len(piece[0])
            if progress is not None:
                progress(done, scan.size_bytes)
