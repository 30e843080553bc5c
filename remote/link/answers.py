"""Read the answer to a call. An unexpected frame, too many bytes or an exceeded deadline raises an error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf

from remote.errors import DeadlineExceeded, RemoteFault
from remote.host import Json
from remote.link.frame_reader import FrameReader
from remote.link.host_hints import hint_of_host
from remote.link.streams import SLOWEST_BYTES_PER_S
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.frames import BadFrame, FrameKind, parse_json
from remote.protocol.hidden import without_hidden
from remote.protocol.text import one_line, safe_text

IDLE_LIMIT_S = 3600.0
"""The longest time for which a host may send only heartbeats. Computing the digests of 1 TB takes half an hour."""
LONGEST_CALL_S = 24 * 3600.0
"""The longest time that a host's progress can extend a call."""
PROGRESS = frozenset({"doing", "done", "total", "note", "downloads"})
"""The keys of events that report progress. Other events are heartbeats."""
PAUSES = 5
"""The pauses of a stream may take this multiple of the timeout in all."""
MAX_MESSAGE = 8000


@dataclass(frozen=True)
class Accepted:
    """The frames that may precede the result: a stream of up to `limit` bytes, and events if `events` is True.

    Without `on_event`, the caller expects only heartbeats.
    """

    sink: Callable[[bytes], None] | None = None
    limit: int = 0
    events: bool = False
    on_event: Callable[[Json], None] | None = None


RESULT_ONLY = Accepted()


def read_result(reader: FrameReader, timeout_s: float, accepted: Accepted = RESULT_ONLY) -> Json:
    """Return the result of a call.

    Raises RemoteFault for an error that the host reports, BadFrame for an unexpected frame, and DeadlineExceeded.
    """
    received, waited_s, stream_ended = 0, 0.0, accepted.sink is None
    start = last_news = reader.clock()
    while True:
        before = reader.clock()
        kind, body = reader.read_frame(timeout_s)
        waited_s += reader.clock() - before
        if kind is FrameKind.JSON:
            answer = parse_json(body)
            if "event" not in answer:
                return _result(answer)
            event = _event(answer)
            if not accepted.events:
                raise BadFrame("an unexpected event")
            if accepted.on_event is not None and PROGRESS & event.keys():
                last_news = reader.clock()
                accepted.on_event(event)
            _require_progress(reader.clock() - last_news, reader.clock() - start)
            continue
        received += len(body)
        if stream_ended or (kind is FrameKind.BYTES and not body):
            raise BadFrame(f"an unexpected {kind.name} frame")
        if received > accepted.limit:
            raise BadFrame(f"a stream of more than {accepted.limit} bytes")
        if waited_s > PAUSES * timeout_s + received / SLOWEST_BYTES_PER_S:
            raise DeadlineExceeded("the host sends its data too slowly", hint="run the command again")
        stream_ended = kind is FrameKind.END
        if accepted.sink is not None and kind is FrameKind.BYTES:
            accepted.sink(body)


def _require_progress(idle_s: float, elapsed_s: float) -> None:
    if idle_s > IDLE_LIMIT_S:
        raise DeadlineExceeded(f"the host has only sent heartbeats for {IDLE_LIMIT_S / 60:.0f} minutes")
    if elapsed_s > LONGEST_CALL_S:
        raise DeadlineExceeded(f"the host did not finish within {LONGEST_CALL_S / 3600:.0f} hours")


def read_events(reader: FrameReader, timeout_s: float, within_s: float = inf) -> Iterator[Json]:
    """Yield the events of a call until its result arrives. Raises DeadlineExceeded after `within_s` seconds.

    A heartbeat restarts `timeout_s`, but does not extend `within_s`.
    """
    start = reader.clock()
    while True:
        _, body = reader.read_frame(timeout_s)
        answer = parse_json(body)
        if "event" not in answer:
            _result(answer)
            return
        if reader.clock() - start > within_s:
            raise DeadlineExceeded(f"the host did not finish within {within_s:.0f} s")
        if event := _event(answer):
            yield event


def _event(answer: Json) -> Json:
    event = answer["event"]
    if not isinstance(event, dict):
        raise BadFrame("an event that is not an object")
    return event


def _result(answer: Json) -> Json:
    result, error = answer.get("result"), answer.get("error")
    if answer.get("ok") is True and error is None and isinstance(result, dict):
        return result
    if not isinstance(error, dict):
        raise BadFrame("a response that is neither a result nor an error")
    raise RemoteFault(
        _text(error.get("message", "no reason given")),
        kind=_line(error.get("kind", "bug")),
        where=_line(error.get("where", "")),
        hint=hint_of_host(_text(error.get("hint", ""))),
        exit_code=_exit_code(error.get("exit_code")),
    )


def _text(value: object) -> str:
    return safe_text(without_hidden(str(value))[:MAX_MESSAGE])


def _line(value: object) -> str:
    return one_line(without_hidden(str(value))[:MAX_MESSAGE])


def _exit_code(code: object) -> ExitCode:
    """Return the answer's exit code if it is a published error code, and BUG for any other value, including 0."""
    if type(code) is int and code in set(ExitCode) - {ExitCode.OK, ExitCode.WOULD_CHANGE}:
        return ExitCode(code)
    return ExitCode.BUG
