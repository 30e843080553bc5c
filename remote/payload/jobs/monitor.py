"""The supervisor's monitor of a running job: steps, disk, size of the output, new checkpoints, gauges."""

from __future__ import annotations

import contextlib
import ctypes
import os
import statistics
import threading
import time
from typing import Dict, List, Optional, Tuple

from remote.payload.checkpoints.files import BrokenCheckpoint, list_names
from remote.payload.checkpoints.kept import keep
from remote.payload.checkpoints.published import publish, signature, unpublished
from remote.payload.files.records import write_record
from remote.payload.jobs.gauge_recorder import GaugeRecorder
from remote.payload.jobs.records import Flags
from remote.protocol.dataclass import dataclass
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import JobLayout, RunLayout

CHECK_EVERY_S = 2.0
SEARCH_EVERY_S = 10.0
QUIET_S = 5.0
STALL_STEPS = 3.0
LOW_DISK_BYTES = 2 * 2**30
OUTPUT_LIMIT = 256 * 2**20
OUTPUT_HEAD = 16 * 2**20
OUTPUT_TAIL = 64 * 2**20
PUNCH_HOLE_KEEP_SIZE = 0x02 | 0x01


@dataclass(frozen=True)
class Limits:
    """Limits in bytes.

    Output above `output` is cut to its head and tail. Free disk space below `low_disk` causes a warning.
    """

    output: int = OUTPUT_LIMIT
    head: int = OUTPUT_HEAD
    tail: int = OUTPUT_TAIL
    low_disk: int = LOW_DISK_BYTES


class JobMonitor:
    """Monitors one job. `check` is cheap, because it runs only the checks that are due."""

    def __init__(self, run: RunLayout, job: JobLayout, spec: JobSpec, limits: Limits) -> None:
        self._run = run
        self._job = job
        self._limits = limits
        self._steps = StepClock(spec.stall_after_s)
        self._processes = spec.processes
        self._began = time.time()
        self._next_check = 0.0
        self._next_search = 0.0
        self._seen: Dict[str, Tuple[str, float]] = {}
        self._cut: Dict[str, int] = {}
        self._publisher: Optional[threading.Thread] = None
        self._gauges = GaugeRecorder(run, job, spec)
        self._flags = Flags()
        self._publish_errors: Dict[str, str] = {}

    @property
    def own_pid(self) -> Optional[int]:
        """The pid of the running nvidia-smi, which is not a process of the job, or None."""
        return self._gauges.sampler.pid

    def check(self, now: float) -> None:
        """Run every check that is due at `now` (monotonic seconds), and write the flags if they changed."""
        self._gauges.check(now, self._progress_time())
        if now >= self._next_check:
            self._next_check = now + CHECK_EVERY_S
            self._steps.note(self._progress_time(), now)
            for path in (self._job.output, *rank_logs(self._job)):
                with contextlib.suppress(OSError):
                    self._cut[path] = keep_head_and_tail(path, self._cut.get(path, 0), self._limits)
            self._write_flags(Flags(self._steps.stalled(now), tuple(self._warnings()), time.time()))
        if now >= self._next_search:
            self._next_search = now + SEARCH_EVERY_S
            self._publish_in_background(now)

    def finish(self, now: float) -> None:
        """Publish the remaining checkpoints. If that fails, record a warning with the reason.

        Call it after every process of the job has ended.
        """
        if self._publisher is not None:
            self._publisher.join()
        self._gauges.finish()
        with contextlib.suppress(OSError):
            self.publish_found(now, 0.0)
        self._write_flags(Flags(False, tuple(self._warnings()), time.time()))

    def _publish_in_background(self, now: float) -> None:
        # Hashing a large checkpoint takes long. In a thread, it does not delay the reaction to a SIGTERM.
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
        warnings = list(self._publish_errors.values())
        with contextlib.suppress(OSError):
            disk = os.statvfs(self._run.root)
            free = disk.f_bavail * disk.f_frsize
            if free < self._limits.low_disk:
                warnings.append(f"only {free / 2**20:.0f} MiB are free under {self._run.root}")
            if disk.f_files and disk.f_favail < 1000:
                warnings.append(f"only {disk.f_favail} inodes are free under {self._run.root}")
        if cut := self._cut.get(self._job.output):
            warnings.append(f"{cut} bytes were removed from the middle of the output")
        return warnings

    def _write_flags(self, flags: Flags) -> None:
        if (flags.stalled, flags.warnings) != (self._flags.stalled, self._flags.warnings):
            self._flags = flags
            with contextlib.suppress(OSError):
                write_record(self._job.flags, flags)

    def publish_found(self, now: float, quiet_s: float) -> None:
        """Publish each checkpoint that the script saved itself and that has not changed for `quiet_s` seconds."""
        newest = ""
        for folder in unpublished(self._run.root):
            with contextlib.suppress(OSError):
                current = signature(folder, list_names(folder))
                before, since = self._seen.get(folder, ("", now))
                if current != before:
                    self._seen[folder] = (current, now)
                    since = now
                if now - since >= quiet_s and self._publish(folder):
                    newest = newest or folder
        if newest:
            with contextlib.suppress(OSError):
                keep(self._run.root, newest)

    def _publish(self, folder: str) -> bool:
        """Publish the checkpoint and return True; on failure, record a warning and return False."""
        try:
            publish(folder, world_size=self._processes)
            self._publish_errors.pop(folder, None)
            return True
        except (BrokenCheckpoint, ValueError) as broken:
            self._publish_errors[folder] = str(broken)
            self._seen[folder] = ("", time.monotonic())
            return False


class StepClock:
    """Measures how long steps take. Time before the first step, such as loading a model, is never a stall."""

    def __init__(self, stall_after_s: float) -> None:
        self._stall_after_s = stall_after_s
        self._last: Optional[int] = None
        self._since = 0.0
        self._lengths: List[float] = []

    def note(self, mark: Optional[int], now: float) -> None:
        """Record `mark`, which changes with every step and is None before the first step."""
        if mark is None or mark == self._last:
            return
        if self._last is not None:
            self._lengths = [*self._lengths[-99:], now - self._since]
        self._last = mark
        self._since = now

    def stalled(self, now: float) -> bool:
        """Return True if the current step takes longer than the limit and three times the median step."""
        if self._last is None:
            return False
        usual = statistics.median(self._lengths) if self._lengths else 0.0
        return now - self._since > max(self._stall_after_s, STALL_STEPS * usual)


def rank_logs(job: JobLayout) -> List[str]:
    """Return the files to which torchrun writes the output of each rank, besides the job's output."""
    return [os.path.join(folder, name) for folder, _, names in os.walk(job.ranks) for name in names]


def keep_head_and_tail(path: str, cut: int, limits: Limits) -> int:
    """Punch a hole into the middle of a file above `limits.output` bytes; return the bytes removed so far.

    Offsets do not change, so the trainer keeps writing and readers keep their position. Raises OSError if the file
    system does not support holes.
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
        notice = f"\n[halfstep removed {length} bytes of output here]\n".encode("ascii")
        os.pwrite(descriptor, notice, start)
    finally:
        os.close(descriptor)
    return length


def _punch(descriptor: int, start: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "fallocate"):
        raise OSError(0, "this system cannot punch holes into files")
    done = libc.fallocate(descriptor, PUNCH_HOLE_KEEP_SIZE, ctypes.c_int64(start), ctypes.c_int64(length))
    if done != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
