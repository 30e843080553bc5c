"""A call accepts only what it asked for, of a bounded size, within its deadline and in bounded memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import chain, repeat

import pytest

from remote.errors import DeadlineExceeded, RemoteFault
from remote.host import Json
from remote.link.agent_start import START_LIMIT_S
from remote.link.answers import IDLE_LIMIT_S, Accepted, read_events, read_result
from remote.link.frame_reader import FrameReader
from remote.link.ssh.channel_stream import ChannelStream
from remote.protocol.frames import BadFrame, FrameKind, pack, pack_json
from tests.remote.link.hostile_agents import ENDLESS, MANIFESTS, ROOT, SURVEYS

MEMORY_MIB = 256
RESULT = pack_json({"ok": True, "result": {"is": 1}})
HEARTBEAT = pack_json({"event": {}})


class Slow:
    """A stream that delivers one chunk for each read, and a clock that advances by `step_s` with each."""

    in_flight = None

    def __init__(self, chunks: Iterator[bytes], step_s: float) -> None:
        self._chunks, self._step_s, self.now = chunks, step_s, 0.0

    def read_some(self, limit: int, timeout_s: float) -> bytes:
        self.now += self._step_s
        return next(self._chunks)

    def write(self, data: bytes, timeout_s: float) -> None:
        pass

    def stderr_text(self) -> str:
        return ""

    def close(self) -> None:
        pass


def reader_of(*chunks: bytes, forever: bytes = b"", step_s: float = 1.0) -> FrameReader:
    stream = Slow(chain(chunks, repeat(forever)), step_s)
    return FrameReader(stream, lambda: stream.now)


def bytes_of(frame: bytes) -> list[bytes]:
    return [frame[at : at + 1] for at in range(len(frame))]


def call_that_ends(name: str, call: str) -> tuple[str, int]:
    """Call the hostile host in a process of its own. Return how the call ends, and the peak memory in MiB."""
    argv = [sys.executable, "-m", "tests.remote.link.hostile_agents", "call", name, call]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    *words, memory = done.stdout.splitlines()
    return "\n".join(words), int(memory)


@pytest.mark.parametrize("name", [*ENDLESS, *MANIFESTS])
def test_SE_07_a_manifest_that_is_endless_or_malformed_is_a_named_error_in_bounded_memory(name: str) -> None:
    words, memory_mib = call_that_ends(name, "manifest")
    assert words.startswith("Garbled ") and len(words) < 400
    assert memory_mib < MEMORY_MIB


@pytest.mark.parametrize("name", [*ENDLESS, *SURVEYS])
def test_SE_09_an_answer_that_is_endless_or_malformed_is_a_named_error_in_bounded_memory(name: str) -> None:
    words, memory_mib = call_that_ends(name, "survey")
    assert words.startswith("Garbled ") and len(words) < 400
    assert memory_mib < MEMORY_MIB


def test_SE_09_heartbeats_do_not_extend_a_change_for_ever() -> None:
    step_s = IDLE_LIMIT_S / 10
    with pytest.raises(DeadlineExceeded, match="only sent heartbeats for 60 minutes"):
        read_result(reader_of(forever=HEARTBEAT, step_s=step_s), 60.0, Accepted(events=True))
    news = [pack_json({"event": {"done": count}}) for count in range(20)]
    seen: list[Json] = []
    accepted = Accepted(events=True, on_event=seen.append)
    assert read_result(reader_of(*news, RESULT, step_s=step_s), 60.0, accepted) == {"is": 1}
    assert len(seen) == 20


@pytest.mark.parametrize(
    ("event", "watched", "message"),
    [
        ({"a": 1}, False, "only sent heartbeats for 60 minutes"),
        ({"a": 1}, True, "only sent heartbeats for 60 minutes"),
        ({"note": "still here"}, False, "only sent heartbeats for 60 minutes"),
        ({"doing": "building torch"}, True, "did not finish within 24 hours"),
        ({"done": 1, "total": 2}, True, "did not finish within 24 hours"),
    ],
)
def test_SE_09_events_do_not_extend_a_change_for_ever(event: Json, watched: bool, message: str) -> None:
    accepted = Accepted(events=True, on_event=(lambda _: None) if watched else None)
    endless = reader_of(forever=pack_json({"event": event}), step_s=IDLE_LIMIT_S / 10)
    with pytest.raises(DeadlineExceeded, match=message):
        read_result(endless, 600.0, accepted)


def test_SE_09_a_byte_now_and_then_does_not_extend_a_deadline() -> None:
    with pytest.raises(DeadlineExceeded, match="too slowly"):
        reader_of(*bytes_of(RESULT), step_s=10.0).read_frame(60.0)
    assert reader_of(*bytes_of(RESULT), step_s=1.0).read_frame(60.0)[0] is FrameKind.JSON


def test_SE_09_a_large_answer_over_a_slow_line_has_the_time_that_it_needs() -> None:
    chunks = [bytes(16384)] * 64
    frame = pack(FrameKind.BYTES, b"".join(chunks))
    reader = reader_of(frame[:5], *chunks, step_s=10.0)
    assert reader.read_frame(60.0) == (FrameKind.BYTES, b"".join(chunks))


def test_SE_09_a_stream_of_single_bytes_ends() -> None:
    """The longest pause is below the timeout, so only the rate of the whole stream shows that it has no end."""
    drip = reader_of(forever=pack(FrameKind.BYTES, b"x"), step_s=20.0)
    pieces: list[bytes] = []
    with pytest.raises(DeadlineExceeded, match="sends its data too slowly"):
        read_result(drip, 60.0, collect(pieces))
    assert 10 <= len(pieces) <= 20


def test_SE_09_a_frame_that_announces_many_bytes_and_sends_few_ends() -> None:
    large = pack(FrameKind.JSON, b'{"ok": true, "result": {"a": "' + b"a" * 10**7 + b'"}}')
    reader = reader_of(large[:5], forever=b"a", step_s=20.0)
    with pytest.raises(DeadlineExceeded, match="too slowly"):
        read_result(reader, 60.0)
    assert reader.clock() < 120.0


def test_SE_09_a_stream_over_a_slow_line_with_pauses_has_the_time_that_it_needs() -> None:
    pieces: list[bytes] = []
    frames = [pack(FrameKind.BYTES, bytes(2**16))] * 100
    pauses = [pack(FrameKind.BYTES, b"x")] * 4
    reader = reader_of(*pauses, *frames, END, RESULT, step_s=55.0)
    assert read_result(reader, 60.0, collect(pieces, 10**8)) == {"is": 1}
    assert sum(map(len, pieces)) == 100 * 2**16 + 4


def test_SE_09_the_time_that_the_laptop_takes_for_a_stream_does_not_count() -> None:
    stream = Slow(iter([PIECE, PIECE, END, RESULT]), 1.0)

    def slow_disk(data: bytes) -> None:
        stream.now += 10_000.0

    assert read_result(FrameReader(stream, lambda: stream.now), 60.0, Accepted(slow_disk, 100)) == {"is": 1}


class Trickle:
    """A channel that accepts or announces a little at a time, and a clock that advances by 20 s with each call."""

    def __init__(self) -> None:
        self.now, self.sent, self.extended = 0.0, 0, 0

    def send(self, data: bytes | memoryview) -> int:
        self.now += 20.0
        self.sent += 1
        return 1

    def recv(self, size: int) -> bytes:
        self.now += 20.0
        self.extended += 1
        raise TimeoutError

    def recv_stderr_ready(self) -> bool:
        return False

    def recv_stderr(self, size: int) -> bytes:
        return b""

    def settimeout(self, seconds: float | None) -> None:
        if seconds is not None and seconds <= 0.0 and self.sent:
            self.send = self._refuse  # type: ignore[method-assign]

    def _refuse(self, data: bytes | memoryview) -> int:
        raise TimeoutError

    def close(self) -> None:
        pass

    def stream(self) -> ChannelStream:
        return ChannelStream(
            self, "titan", lambda: "", lambda _: nullcontext(), lambda: self.extended, lambda: None, lambda: self.now
        )


def test_SE_09_a_host_that_reads_single_bytes_does_not_extend_a_write() -> None:
    channel = Trickle()
    with pytest.raises(DeadlineExceeded, match="read nothing"):
        channel.stream().write(bytes(100 * 1024), 60.0)
    assert channel.sent == (60 + 100) / 20


def test_SE_09_a_host_that_opens_its_window_does_not_extend_a_read_for_ever() -> None:
    channel = Trickle()
    with pytest.raises(DeadlineExceeded, match="sent nothing"):
        channel.stream().read_some(100, 60.0)
    assert 3600 <= channel.now < 4000


def test_SE_09_a_line_of_the_bootstrap_must_arrive_in_time() -> None:
    with pytest.raises(DeadlineExceeded, match="too slowly"):
        reader_of(*bytes_of(b"NEED" + bytes(100)), step_s=1.0).read_line(60.0)


def test_SE_09_an_agent_that_never_greets_is_given_up_on() -> None:
    with pytest.raises(DeadlineExceeded, match="too slowly"):
        reader_of(forever=b".\n", step_s=5.0).skip_until(b"mark", 60.0, START_LIMIT_S)
    dots = [b".\n"] * int(START_LIMIT_S / 10)
    reader = reader_of(*dots, b"mark!\n", step_s=5.0)
    reader.skip_until(b"mark", 60.0, START_LIMIT_S)
    assert reader.read_line(60.0) == b"!\n"


def test_SE_09_events_end_within_the_time_of_the_whole_call() -> None:
    events = read_events(reader_of(forever=HEARTBEAT, step_s=10.0), 60.0, within_s=900.0)
    with pytest.raises(DeadlineExceeded, match="did not finish within 900 s"):
        list(events)


def collect(into: list[bytes], limit: int = 10**6) -> Accepted:
    return Accepted(into.append, limit)


PIECE, END = pack(FrameKind.BYTES, b"abc"), pack(FrameKind.END)


@pytest.mark.parametrize(
    ("frames", "accepted", "message"),
    [
        ([PIECE, RESULT], Accepted(), "unexpected BYTES"),
        ([END, RESULT], Accepted(), "unexpected END"),
        ([HEARTBEAT, RESULT], Accepted(), "unexpected event"),
        ([HEARTBEAT, RESULT], collect([]), "unexpected event"),
        ([PIECE, END, END, RESULT], collect([]), "unexpected END"),
        ([PIECE, END, PIECE, RESULT], collect([]), "unexpected BYTES"),
        ([pack(FrameKind.BYTES), RESULT], collect([]), "unexpected BYTES"),
        ([PIECE, PIECE, END, RESULT], collect([], 5), "more than 5 bytes"),
        ([pack_json({"event": [1]}), RESULT], Accepted(events=True), "not an object"),
        ([pack_json({"ok": True})], Accepted(), "neither a result nor an error"),
        ([pack_json({"ok": True, "result": []})], Accepted(), "neither a result nor an error"),
        ([pack_json({"ok": False, "result": {}})], Accepted(), "neither a result nor an error"),
    ],
)
def test_frames_that_a_call_did_not_ask_for_are_refused(frames: list[bytes], accepted: Accepted, message: str) -> None:
    with pytest.raises(BadFrame, match=message):
        read_result(reader_of(*frames), 60.0, accepted)


def test_a_stream_and_its_end_precede_the_result() -> None:
    pieces: list[bytes] = []
    assert read_result(reader_of(PIECE, PIECE, END, RESULT), 60.0, collect(pieces)) == {"is": 1}
    assert pieces == [b"abc", b"abc"]


@pytest.mark.parametrize("ok", [True, False, None])
def test_SE_06_an_error_is_raised_whatever_stands_beside_it(ok: object) -> None:
    answer = pack_json({"ok": ok, "result": {}, "error": {"message": "no\x1b[2J" + "x" * 10**6, "exit_code": 0}})
    with pytest.raises(RemoteFault) as caught:
        read_result(reader_of(answer), 60.0)
    assert caught.value.exit_code != 0 and "\x1b" not in caught.value.message
    assert len(caught.value.message) < 10_000
