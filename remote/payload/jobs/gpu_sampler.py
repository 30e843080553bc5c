"""Sample the load of a job's GPUs with nvidia-smi in a child process, without waiting for the child."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from typing import Iterator, Optional, Tuple

from remote.protocol.gauges import GpuUse

SAMPLE_EVERY_S = 5.0
DEADLINE_S = 10.0
MAX_SHARE = 0.1
"""The largest share of time that queries may take. Without persistence mode, one nvidia-smi takes seconds."""
FIELDS = "index,uuid,utilization.gpu,memory.used,memory.total,temperature.gpu"
MEBI = 2**20


class GpuSampler:
    """Queries nvidia-smi at intervals. `visible` is the job's CUDA_VISIBLE_DEVICES.

    If the driver hangs, nvidia-smi may be unkillable. A query gets SIGKILL after DEADLINE_S seconds, and no other query
    is started before it has ended. Without nvidia-smi there are no samples.
    """

    def __init__(self, visible: str = "") -> None:
        self._visible = visible
        self._query: Optional[subprocess.Popen[bytes]] = None
        self._began = 0.0
        self._next = float("-inf") if shutil.which("nvidia-smi") else float("inf")

    @property
    def pid(self) -> Optional[int]:
        """The pid of the running query or None.

        The query is a child of the supervisor, but not a process of the job.
        """
        return self._query.pid if self._query is not None else None

    def sample(self, now: float) -> Tuple[GpuUse, ...]:
        """Return the sample if a query has just ended, otherwise (). Start a query if it is due at `now`."""
        sample: Tuple[GpuUse, ...] = ()
        if self._query is not None:
            if self._query.poll() is None:
                if now - self._began > DEADLINE_S:
                    self._query.kill()
                return ()
            sample = self._read(self._query)
            self._next = self._began + max(SAMPLE_EVERY_S, (now - self._began) / MAX_SHARE)
            self._query = None
        if now >= self._next:
            self._start(now)
        return sample

    def close(self) -> None:
        """Kill a query that is still running."""
        if self._query is not None:
            self._query.kill()

    def _start(self, now: float) -> None:
        try:
            self._query = subprocess.Popen(
                ["nvidia-smi", f"--query-gpu={FIELDS}", "--format=csv,noheader,nounits"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._began = now
        except OSError:
            self._next = float("inf")

    def _read(self, query: subprocess.Popen[bytes]) -> Tuple[GpuUse, ...]:
        # A pipe holds 64 KiB, far more than a table of GPUs, so nvidia-smi never blocks on a full pipe.
        assert query.stdout is not None
        with query.stdout, contextlib.suppress(OSError):
            return parse_gpu_use(query.stdout.read().decode("utf-8", "replace"), self._visible)
        return ()


def parse_gpu_use(text: str, visible: str = "") -> Tuple[GpuUse, ...]:
    """Parse the answer to FIELDS.

    Return the GPUs that `visible` lists by index or UUID, or all GPUs if `visible` is empty.
    """
    rows = list(_rows(text))
    visible_ids = {word.strip() for word in visible.split(",")}
    chosen = [use for uuid, use in rows if str(use.index) in visible_ids or uuid in visible_ids]
    return tuple(chosen or [use for _, use in rows])


def _rows(text: str) -> Iterator[Tuple[str, GpuUse]]:
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 6 or not fields[0].isdigit():
            continue
        load, used, total, temperature = (_number(field) for field in fields[2:])
        yield fields[1], GpuUse(int(fields[0]), load, _bytes(used), _bytes(total), temperature)


def _number(text: str) -> Optional[float]:
    """Return None for `[N/A]`, `[Not Supported]` and `[Unknown Error]`."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value < 1e9 else None


def _bytes(mebibytes: Optional[float]) -> Optional[int]:
    return int(mebibytes * MEBI) if mebibytes is not None else None
