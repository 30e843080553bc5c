"""Follow a running job: push its output, and the complete records of its event files, while the job writes them."""

from __future__ import annotations

import base64
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Tuple

from remote.payload.output.event_files import find_events, resolve
from remote.payload.output.events import is_unchanged_before
from remote.payload.output.file_watcher import FileWatcher, pause
from remote.payload.output.job_folder import job_folder, run_root
from remote.payload.output.logs import start_of_last_lines
from remote.payload.request.call import HEARTBEAT_S, Call
from remote.protocol.dataclass import dataclass
from remote.protocol.events import ROOTS
from remote.protocol.layout import RunLayout
from remote.protocol.records import read_records
from remote.protocol.regular import open_regular
from remote.protocol.segments import tail_digest

SEARCH_EVERY_S = 2.0
SEARCH_SHARE = 0.02
PACE_S = 0.02
CHUNK = 2**18
MAX_PUSHED = 8 * 2**20
TENSORBOARD_ONLY = ("tensorboard",)

Json = Dict[str, Any]
HasEnded = Callable[[], bool]


@dataclass
class Position:
    """The position up to which a file was sent: the offset, and the `tail_digest` at this offset.

    `seen` contains size, mtime and inode of the file at the last check.
    """

    offset: int = 0
    tail_sha256: str = ""
    seen: Tuple[int, int, int] = (-1, -1, -1)

    def unchanged(self, path: str) -> bool:
        """Return True if the file has not changed since the last call."""
        status = os.lstat(path)
        seen, self.seen = self.seen, (status.st_size, status.st_mtime_ns, status.st_ino)
        return seen == self.seen


def follow_events(call: Call, has_ended: HasEnded) -> Json:
    """Push {name, offset, fresh, data} for the complete records of every event file.


    `fresh` is True in the first event after the file was rewritten: the file is sent again from its start.
    `wants` contains the start position of each known file; other files start at 0. Returns when the job has ended and
    all its records were pushed, or when the laptop has closed the connection.
    """
    root = run_root(call)
    known = {name: Position(offset, tail) for name, offset, tail in call.args.get("wants", [])}
    paths = {name: resolve(root, name) for name in known}
    search_at = [float("-inf")]

    def folders() -> List[str]:
        near = [folder for folder, _, _ in os.walk(RunLayout(root).tensorboard)]
        return [*near, *{os.path.dirname(path) for path in paths.values()}]

    def news(search_all: bool) -> Iterator[Json]:
        began = time.monotonic()
        far = search_all or began >= search_at[0]
        for name, path in find_events(root, ROOTS if far else TENSORBOARD_ONLY):
            paths[name] = path
            known.setdefault(name, Position())
        if far:
            took = time.monotonic() - began
            search_at[0] = began + max(SEARCH_EVERY_S, took / SEARCH_SHARE)
        for name, path in paths.items():
            yield from _event_news(name, path, known[name])

    return _push(call, job_folder(root, int(call.args.get("job", 0))), has_ended, news, folders)


def follow_log(call: Call, has_ended: HasEnded) -> Json:
    """Push {offset, fresh, data, tail_sha256} of the output, starting at `offset` or at its last `lines` lines.

    `fresh` is True in the first event after the file was rewritten: the file is sent again from its start.
    Returns under the same conditions as `follow_events`.
    """
    folder = job_folder(run_root(call), int(call.args.get("job", 0)))
    path = os.path.join(folder, "output.log")
    position = Position(int(call.args.get("offset", 0)), str(call.args.get("tail_sha256", "")))
    if "lines" in call.args:
        position = _last_lines(path, int(call.args["lines"]))
    return _push(call, folder, has_ended, lambda _: _log_news(path, position), list)


def _push(
    call: Call,
    job: str,
    has_ended: HasEnded,
    news: Callable[[bool], Iterator[Json]],
    folders: Callable[[], List[str]],
) -> Json:
    watcher = FileWatcher()
    try:
        while True:
            watcher.follow([job, *folders()])
            ended = has_ended()
            began = time.monotonic()
            sent = False
            for event in news(ended):
                call.push(event)
                sent = True
            if ended and not sent:
                return {"ended": True}
            if call.connection.closed():
                return {"ended": False}
            call.keep_alive()
            _wait(call, watcher, sent, began)
    finally:
        watcher.close()


def _wait(call: Call, watcher: FileWatcher, sent: bool, began: float) -> None:
    """Wait until a file may have changed, and count the changes that inotify did not report."""
    if sent:
        watcher.note_change(notified=watcher.notified or watcher.wait(call.connection.source, 0))
        pause(PACE_S, began)
        watcher.notified = True
    else:
        watcher.notified = watcher.wait(call.connection.source, HEARTBEAT_S - call.idle_s())


def _event_news(name: str, path: str, position: Position) -> Iterator[Json]:
    for piece in _pieces(path, position, lambda fd, offset: read_records(fd, offset)[0]):
        yield {"name": name, **piece}


def _log_news(path: str, position: Position) -> Iterator[Json]:
    for piece in _pieces(path, position, lambda fd, offset: os.pread(fd, CHUNK, offset)):
        yield {**piece, "tail_sha256": position.tail_sha256}


def _pieces(path: str, position: Position, read: Callable[[int, int], bytes]) -> Iterator[Json]:
    """Yield {offset, fresh, data} for each piece that `read` returns. `position` is set to the end of each piece.

    `fresh` is True in the first event after the file was rewritten: the file is sent again from its start.
    The iteration ends before a record that does not fit into a frame. The laptop fetches such a record with the
    operation `events.read`.
    """
    try:
        if position.unchanged(path):
            return
        with open_regular(path) as file:
            fresh = not is_unchanged_before(file, position.offset, position.tail_sha256)
            if fresh:
                position.offset, position.tail_sha256 = 0, ""
            while True:
                data = read(file.fileno(), position.offset)
                if not data or len(data) > MAX_PUSHED:
                    return
                piece = {"offset": position.offset, "fresh": fresh, "data": _text(data)}
                _advance(position, file.fileno(), len(data))
                yield piece
                fresh = False
    except OSError:
        return


def _advance(position: Position, fd: int, size: int) -> None:
    position.offset += size
    position.tail_sha256 = tail_digest(fd, position.offset)


def _last_lines(path: str, lines: int) -> Position:
    position = Position()
    try:
        with open_regular(path) as file:
            _advance(position, file.fileno(), start_of_last_lines(file, lines))
    except OSError:
        pass
    return position


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
