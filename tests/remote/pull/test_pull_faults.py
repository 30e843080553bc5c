"""After a pull that was killed, ran twice or hit a full disk, the next pull completes the mirror."""

# ruff: noqa: TID253 - the mirror is compared with the official readers
from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.context import RequestContext
from tensorboard.data.provider import DataProvider
from tensorboard.data.server_ingester import SubprocessServerDataIngester, get_server_binary
from tensorboard.util.grpc_util import ChannelCredsType

from remote.errors import DiskFull, PullRefused
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.protocol.jobs import EventFile
from remote.protocol.records import complete_prefix
from remote.protocol.segments import SEGMENT
from remote.pull.events import pull_events
from remote.pull.names import MAX_NAMES
from remote.pull.report import PulledState
from tests.lab.mounts import why_no_mounts
from tests.lab.records import pack_record
from tests.lab.wait import PATIENCE_S

PULL = """
import sys
from pathlib import Path
from remote.link.local import local_host
from remote.payload.output.events import survey_events
from remote.pull.events import pull_events
host = local_host(sys.argv[1])
files = survey_events(sys.argv[2])
print("pulling", flush=True)
report = pull_events(host, sys.argv[3], sys.argv[4], files, Path(sys.argv[5]))
print(report.files[0].state.value, flush=True)
"""


@cache
def big() -> bytes:
    """10 MB of records."""
    return b"".join(pack_record(os.urandom(1 + n % 5000)) for n in range(4000))


def pulling(box) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", textwrap.dedent(PULL), box.run.parents[3], box.run, box.key, box.name, box.mirror]
    return subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE, cwd=Path(__file__).parents[3])


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_FI_62_killed_at_any_moment_the_mirror_is_a_prefix_and_the_next_pull_completes_it(box):
    box.events.write_bytes(big())
    seed = random.Random(62)
    sizes = set()
    for _ in range(12):
        process = pulling(box)
        assert process.stdout is not None
        process.stdout.readline()
        moment = seed.randrange(len(big()))
        while size_of(box.mirrored) < moment and process.poll() is None:
            pass
        process.kill()
        ended = process.wait()
        process.stdout.close()
        local = box.mirrored.read_bytes() if box.mirrored.exists() else b""
        assert big().startswith(local)
        sizes.add(len(local))
        if ended != -signal.SIGKILL or seed.random() < 0.5:
            box.mirrored.unlink()
    assert len(sizes) > 2, "no kill hit a pull at work"

    assert box.pull_one().state is PulledState.WHOLE
    assert box.mirrored.read_bytes() == big()


def test_FI_62_simultaneous_pulls_all_succeed_and_leave_one_complete_file(box):
    box.events.write_bytes(big())
    processes = [pulling(box) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert outputs == [b"pulling\nwhole\n"] * 2
    assert box.mirrored.read_bytes() == big()
    assert sorted(path.name for path in box.mirrored.parent.iterdir()) == [box.events.name]


@pytest.fixture
def small_disk(box) -> Iterator[Path]:
    box.mirror.mkdir()
    if reason := why_no_mounts():
        pytest.skip(reason)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(box.mirror)], check=True)
    yield box.mirror
    subprocess.run(["umount", str(box.mirror)], check=True)


@pytest.mark.root
def test_FI_24_FI_62_a_full_local_disk_is_exit_22_and_with_space_the_pull_completes(box, small_disk):
    box.events.write_bytes(big()[: complete_prefix(big()[: 2**20]).size_bytes])

    with pytest.raises(DiskFull) as caught:
        box.pull()

    local = box.mirrored.read_bytes()
    assert caught.value.exit_code is ExitCode.DISK
    assert str(box.mirrored) in caught.value.message
    assert big().startswith(local)
    assert complete_prefix(local).size_bytes == len(local)
    subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
    assert box.pull_one().state is PulledState.WHOLE
    assert box.mirrored.read_bytes() == box.events.read_bytes()


def test_FI_59_tensorboards_python_and_rust_readers_load_every_record(box, tmp_path):
    version = Event(wall_time=1.0, file_version="brain.Event:2").SerializeToString()
    whole = pack_record(version) + b"".join(scalar_record(step) for step in range(40))
    seed = random.Random(5)
    for cut in sorted(seed.sample(range(60, len(whole)), 15)):
        box.events.write_bytes(whole[:cut])
        box.pull()
        count = complete_prefix(whole[:cut]).records
        assert len(list(RawEventFileLoader(str(box.mirrored)).Load())) == count
    box.events.write_bytes(whole)
    box.pull()
    assert rust_steps(box.mirror, "tensorboard", "loss") == list(range(40))


def scalar_record(step: int) -> bytes:
    summary = Summary(value=[Summary.Value(tag="loss", simple_value=1.0 / (step + 1))])
    return pack_record(Event(wall_time=2.0 + step, step=step, summary=summary).SerializeToString())


def rust_steps(logdir: Path, run: str, tag: str) -> list[int]:
    """Return the steps of one curve that TensorBoard's own data server (the fast, strict loader) has read."""
    with data_server(logdir) as provider:
        context = RequestContext()
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            found = provider.read_scalars(
                context, experiment_id="", plugin_name="scalars", downsample=1000, run_tag_filter=None
            )
            if run in found and tag in found[run]:
                return [point.step for point in found[run][tag]]
    return []


@contextlib.contextmanager
def data_server(logdir: Path) -> Iterator[DataProvider]:
    ingester = SubprocessServerDataIngester(
        server_binary=get_server_binary(),
        logdir=str(logdir),
        reload_interval=0,
        channel_creds_type=ChannelCredsType.LOCAL,
        samples_per_plugin={"scalars": 0},
    )
    ingester.start()
    try:
        yield ingester.data_provider
    finally:
        ingester._stdin_handle.close()


class Hostile:
    """A host that answers a pull with arbitrary data."""

    def __init__(self, *segments: bytes, answer: object = None) -> None:
        self._stream = b"".join(segments)
        self._answer = {"files": [{"name": "x", "ending": "clean"}]} if answer is None else answer
        self.closed = False

    def fetch(self, op, args, sink, *, limit, timeout_s=60.0):
        for start in range(0, len(self._stream), 7):
            sink(self._stream[start : start + 7])
        return self._answer

    def close(self) -> None:
        self.closed = True


NAME = "tensorboard/events.out.tfevents.1"
RECORD = pack_record(b"x" * 50)


def pull_from(host: Hostile, mirror: Path, *names: str):
    files = [EventFile(name, 10**6, "0" * 64) for name in names or (NAME,)]
    return pull_events(host, "speech-1", "tiny-1", files, mirror)


def segment(index: int, data: bytes, *, flags: int = 0, size: int | None = None) -> bytes:
    return SEGMENT.pack(index, flags, len(data) if size is None else size) + data


BAD_NAMES = [
    "../events.out.tfevents.1",
    "/tmp/events.out.tfevents.1",
    "tensorboard/../../events.out.tfevents.1",
    "tensorboard/events.out.tfevents." + "n" * 4096,
    "tensorboard/events\x1b]52;c;x\x07.tfevents.1",
    "tensorboard/authorized_keys",
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_BI_53_a_bad_name_is_an_error_50_and_writes_nothing(tmp_path, name):
    report = pull_from(Hostile(), tmp_path / "mirror", name)

    (finding,) = report.findings
    assert (finding.severity, finding.exit_code) == (Severity.ERROR, ExitCode.PULL)
    assert list(tmp_path.rglob("*")) == []


def test_BI_53_good_names_beside_bad_ones_are_pulled(tmp_path):
    report = pull_from(Hostile(segment(0, RECORD)), tmp_path / "mirror", BAD_NAMES[0], NAME)

    assert [file.state for file in report.files] == [PulledState.WHOLE, PulledState.REFUSED]
    assert (tmp_path / "mirror" / NAME).read_bytes() == RECORD
    assert [path.name for path in tmp_path.iterdir()] == ["mirror"]


def test_BI_53_more_files_than_a_run_may_have_are_refused(tmp_path):
    names = (f"tensorboard/events.out.tfevents.{n}" for n in range(MAX_NAMES + 1))
    with pytest.raises(PullRefused) as caught:
        pull_from(Hostile(), tmp_path / "mirror", *names)
    assert caught.value.exit_code is ExitCode.PULL
    assert not (tmp_path / "mirror").exists()


@pytest.mark.parametrize(
    "stream",
    [segment(1, RECORD), segment(0, b"", size=2**63), segment(0, b"", size=2**27)],
    ids=["another file", "2^63 bytes", "more than a record may have"],
)
def test_BI_53_a_stream_that_breaks_the_rules_ends_the_connection(tmp_path, stream):
    host = Hostile(stream)
    with pytest.raises(PullRefused):
        pull_from(host, tmp_path / "mirror")
    assert host.closed


@pytest.mark.parametrize(
    "data",
    [RECORD[:-1], RECORD + b"x", bytes(64), RECORD[:20] + b"?" + RECORD[21:]],
    ids=["torn", "more", "zeros", "bit"],
)
def test_BI_54_bytes_that_are_not_complete_records_are_not_written(tmp_path, data):
    report = pull_from(Hostile(segment(0, data)), tmp_path / "mirror")
    assert report.files[0].state is PulledState.SKIPPED
    assert not (tmp_path / "mirror" / NAME).exists()


@pytest.mark.parametrize("answer", [{}, {"files": []}, {"files": 3}, {"files": [None]}, {"files": [{"ending": "?"}]}])
def test_a_malformed_answer_is_reported(tmp_path, answer):
    try:
        report = pull_from(Hostile(segment(0, RECORD), answer=answer), tmp_path / "mirror")
    except PullRefused as refused:
        assert "the state of its files" in refused.message
    else:
        assert report.files[0].state is PulledState.SKIPPED


def test_a_host_that_replaces_its_file_for_ever_is_stopped(tmp_path):
    segments = [segment(0, pack_record(b"%d" % n), flags=1) for n in range(50)]
    report = pull_from(Hostile(*segments), tmp_path / "mirror")
    assert report.files[0].state is PulledState.SKIPPED
    assert "replaced" in report.files[0].reason
    assert len(list((tmp_path / "mirror").rglob("*tfevents*"))) == 20
