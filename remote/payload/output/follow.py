"""Pushing what a running job writes: its output, and whole records of its event files, as they come."""

from __future__ import annotations

import base64
import os
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List, Tuple

from remote.payload.output.event_files import ROOTS, find_events, open_regular, resolve
from remote.payload.output.events import continues
from remote.payload.output.job_folder import job_folder, run_root
from remote.payload.output.logs import start_of_last_lines
from remote.payload.output.watch import Watch, pause
from remote.payload.request.call import Call
from remote.protocol.layout import RunLayout
from remote.protocol.records import read_records
from remote.protocol.segments import tail_digest

HEARTBEAT_S = 10.0
LOOK_AGAIN_S = 2.0
LOOK_SHARE = 0.02
PACE_S = 0.02
CHUNK = 2**18
NEAR = ("tensorboard",)
UNTOLD = 3

Json = Dict[str, Any]
Over = Callable[[], bool]
"""Whether the job that is followed has ended."""


@dataclass
class Position:
    """How far one file was sent, the digest of the bytes just before, and how the file looked when last read."""

    offset: int = 0
    tail_sha256: str = ""
    seen: Tuple[int, int, int] = (-1, -1, -1)

    def unchanged(self, path: str) -> bool:
        """Nothing happened to the file since it was last asked about."""
        status = os.lstat(path)
        seen, self.seen = self.seen, (status.st_size, status.st_mtime_ns, status.st_ino)
        return seen == self.seen


def follow_events(call: Call, over: Over) -> Json:
    """Pushes {name, offset, fresh, data} for whole records of every event file, present and future, from `wants` on.

    Ends when the job is over and everything was pushed, or when the laptop is gone.
    """
    root = run_root(call)
    known = {name: Position(offset, tail) for name, offset, tail in call.args.get("wants", [])}
    paths = {name: resolve(root, name) for name in known}
    look_at = [float("-inf")]

    def folders() -> List[str]:
        near = [folder for folder, _, _ in os.walk(RunLayout(root).tensorboard)]
        return [*near, *{os.path.dirname(path) for path in paths.values()}]

    def news(thorough: bool) -> Iterator[Json]:
        began = time.monotonic()
        far = thorough or began >= look_at[0]
        for name, path in find_events(root, ROOTS if far else NEAR):
            paths[name] = path
            known.setdefault(name, Position())
        if far:
            took = time.monotonic() - began
            look_at[0] = began + max(LOOK_AGAIN_S, took / LOOK_SHARE)
        for name, path in paths.items():
            yield from _event_news(name, path, known[name])

    return _push(call, job_folder(root, int(call.args.get("job", 0))), over, news, folders)


def follow_log(call: Call, over: Over) -> Json:
    """Pushes {offset, fresh, data, tail_sha256} of the output from `offset` or its last `lines` lines on, as above."""
    folder = job_folder(run_root(call), int(call.args.get("job", 0)))
    path = os.path.join(folder, "output.log")
    position = Position(int(call.args.get("offset", 0)), str(call.args.get("tail_sha256", "")))
    if "lines" in call.args:
        position = _last_lines(path, int(call.args["lines"]))
    return _push(call, folder, over, lambda _: _log_news(path, position), list)


def _push(
    call: Call, job: str, over: Over, news: Callable[[bool], Iterator[Json]], folders: Callable[[], List[str]]
) -> Json:
    watch = Watch()
    spoke = time.monotonic()
    told, untold = True, 0
    try:
        while True:
            watch.follow([job, *folders()])
            ended = over()
            began = time.monotonic()
            sent = False
            for event in news(ended):
                call.push(event)
                sent, spoke = True, time.monotonic()
            if sent and not told and not watch.wait(call.line.source, 0):
                untold += 1
                watch.deaf = watch.deaf or untold >= UNTOLD
            if ended and not sent:
                return {"ended": True}
            if call.line.gone():
                return {"ended": False}
            if time.monotonic() - spoke >= HEARTBEAT_S:
                call.push({})
                spoke = time.monotonic()
            if sent:
                pause(PACE_S, began)
            told = sent or watch.wait(call.line.source, HEARTBEAT_S - (time.monotonic() - spoke))
    finally:
        watch.close()


def _event_news(name: str, path: str, position: Position) -> Iterator[Json]:
    for piece in _pieces(path, position, lambda fd, offset: read_records(fd, offset)[0]):
        yield {"name": name, **piece}


def _log_news(path: str, position: Position) -> Iterator[Json]:
    for piece in _pieces(path, position, lambda fd, offset: os.pread(fd, CHUNK, offset)):
        yield {**piece, "tail_sha256": position.tail_sha256}


def _pieces(path: str, position: Position, read: Callable[[int, int], bytes]) -> Iterator[Json]:
    """{offset, fresh, data} for each piece that `read` finds from `position` on, which is past it by then."""
    try:
        if position.unchanged(path):
            return
        with open_regular(path) as file:
            fresh = not continues(file, position.offset, position.tail_sha256)
            if fresh:
                position.offset, position.tail_sha256 = 0, ""
            while True:
                data = read(file.fileno(), position.offset)
                if not data:
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
