"""What the supervisor looks at while a job runs: step counter, disk, size of the output, new checkpoints."""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

from remote.payload.checkpoints.files import BrokenCheckpoint, list_names
from remote.payload.checkpoints.published import publish, signature, unpublished
from remote.payload.files.records import write_record
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout, RunLayout

LOOK_EVERY_S = 2.0
SEARCH_EVERY_S = 10.0
QUIET_S = 5.0
STALL_STEPS = 3.0
LOW_DISK_BYTES = 2 * 2**30
OUTPUT_LIMIT = 256 * 2**20
OUTPUT_HEAD = 16 * 2**20
OUTPUT_TAIL = 64 * 2**20
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01


@dataclass(frozen=True)
class Flags:
    """What is told of a running job besides its progress; written whole whenever it changes."""

    stalled: bool = False
    warnings: Tuple[str, ...] = ()
    at_unix: float = 0.0


@dataclass(frozen=True)
class Limits:
    """How much output is kept of a job that says too much: a head and a tail."""

    output: int = OUTPUT_LIMIT
    head: int = OUTPUT_HEAD
    tail: int = OUTPUT_TAIL
    low_disk: int = LOW_DISK_BYTES


def flags_path(job: JobLayout) -> str:
    return f"{job.root}/flags.json"


class Watch:
    """One job under watch. `look` is cheap and may be called as often as one likes."""

    def __init__(self, run: RunLayout, job: JobLayout, spec: JobSpec, limits: Limits) -> None:
        self._run = run
        self._job = job
        self._limits = limits
        self._steps = StepClock(spec.stall_after_s)
        self._processes = spec.processes
        self._began = time.time()
        self._next_look = 0.0
        self._next_search = 0.0
        self._seen: Dict[str, Tuple[str, float]] = {}
        self._cut = 0
        self._publisher: Optional[threading.Thread] = None
        self._flags = Flags()
        self._complaints: Dict[str, str] = {}

    def look(self, now: float) -> None:
        """Everything due at `now` (monotonic seconds) was looked at, and told where it changed."""
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            self._steps.note(self._progress_time(), now)
            with contextlib.suppress(OSError):
                self._cut = keep_head_and_tail(self._job.output, self._cut, self._limits)
            self._tell(Flags(self._steps.stalled(now), tuple(self._warnings()), time.time()))
        if now >= self._next_search:
            self._next_search = now + SEARCH_EVERY_S
            self._publish_aside(now)

    def finish(self, now: float) -> None:
        """Every process is gone, so whatever was saved is as whole as it will be: published, or told why not."""
        if self._publisher is not None:
            self._publisher.join()
        with contextlib.suppress(OSError):
            self.publish_found(now, 0.0)
        self._tell(Flags(False, tuple(self._warnings()), time.time()))

    def _publish_aside(self, now: float) -> None:
        # Digests of a large checkpoint take a while, and a SIGTERM must not wait for them.
        if self._publisher is None or not self._publisher.is_alive():
            self._publisher = threading.Thread(target=self.publish_found, args=(now, QUIET_S), daemon=True)
            self._publisher.start()

    def _progress_time(self) -> Optional[int]:
        try:
            status = os.stat(self._run.progress)
        except OSError:
            return None
        return status.st_mtime_ns if status.st_mtime >= self._began - 2.0 else None

    def _warnings(self) -> List[str]:
        words = list(self._complaints.values())
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._run.root)
            free = disk.f_bavail * disk.f_frsize
            if free < self._limits.low_disk:
                words.append(f"only {free / 2**20:.0f} MiB are free under {self._run.root}")
            if disk.f_files and disk.f_favail < 1000:
                words.append(f"only {disk.f_favail} inodes are free under {self._run.root}")
        if self._cut:
            words.append(f"{self._cut} bytes of output were left out; head and tail are kept")
        return words

    def _tell(self, flags: Flags) -> None:
        if (flags.stalled, flags.warnings) != (self._flags.stalled, self._flags.warnings):
            self._flags = flags
            with contextlib.suppress(OSError):
                write_record(flags_path(self._job), flags)

    def publish_found(self, now: float, quiet_s: float) -> None:
        """Every checkpoint that a script saved itself, and that lay unchanged for `quiet_s`, has its manifest."""
        for folder in unpublished(self._run.root):
            with contextlib.suppress(OSError):
                look = signature(folder, list_names(folder))
                before, since = self._seen.get(folder, ("", now))
                if look != before:
                    self._seen[folder] = (look, now)
                    since = now
                if now - since >= quiet_s:
                    self._publish(folder)

    def _publish(self, folder: str) -> None:
        try:
            publish(folder, world_size=self._processes)
            self._complaints.pop(folder, None)
        except (BrokenCheckpoint, ValueError) as broken:
            self._complaints[folder] = str(broken)
            self._seen[folder] = ("", time.monotonic())


class StepClock:
    """How long steps take, and whether the next one is overdue. Loading a model before the first one takes its time."""

    def __init__(self, stall_after_s: float) -> None:
        self._stall_after_s = stall_after_s
        self._last: Optional[int] = None
        self._since = 0.0
        self._lengths: List[float] = []

    def note(self, mark: Optional[int], now: float) -> None:
        """`mark` differs whenever there was a new step; None while there was none."""
        if mark is None or mark == self._last:
            return
        if self._last is not None:
            self._lengths = [*self._lengths[-99:], now - self._since]
        self._last = mark
        self._since = now

    def stalled(self, now: float) -> bool:
        if self._last is None:
            return False
        usual = statistics.median(self._lengths) if self._lengths else 0.0
        return now - self._since > max(self._stall_after_s, STALL_STEPS * usual)


def keep_head_and_tail(path: str, cut: int, limits: Limits) -> int:
    """At most head, tail and a limit of that file use disk; bytes left out so far. Offsets in it stay what they are.

    The middle becomes a hole: the trainer keeps its open file, and a reader its place. Where the file system makes no
    holes, the file stays as it is and the disk warning is what is left.
    """
    status = os.stat(path)
    if status.st_blocks * 512 <= limits.output:
        return cut
    start = limits.head
    length = (status.st_size - limits.tail - start) // 4096 * 4096
    if length <= 0:
        return cut
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        _punch(descriptor, start, length)
        words = f"\n[halfstep left out {length} bytes of output here]\n".encode("ascii")
        os.pwrite(descriptor, words, start)
    finally:
        os.close(descriptor)
    return length


def _punch(descriptor: int, start: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        raise OSError(0, "this system makes no holes in files")
    done = libc.fallocate(descriptor, PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length))
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
