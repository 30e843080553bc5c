"""Apply a function to many items in one process per processor."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
FEWEST = 64
"""The minimum number of items per process. Forking a process takes about as long as processing ten files."""


def in_processes(
    function: Callable[[Item], Result], items: Sequence[Item], processes: int | None = None
) -> list[Result]:
    """Return the result of each item, in order.

    Changes that `function` makes in memory are lost if it runs in another process. If a process fails, its items are
    computed again in this process, so that their exception is raised here.
    """
    count = _processes(len(items)) if processes is None else processes
    started = [_start(function, items[at::count]) for at in range(1, count)]
    parts = [[function(item) for item in items[::count]]]
    for at, (pid, pipe) in enumerate(started, 1):
        results = _finish(pid, pipe)
        parts.append(results if results is not None else [function(item) for item in items[at::count]])
    return [parts[at % count][at // count] for at in range(len(items))]


def _processes(items: int) -> int:
    """Return the number of processes.

    It is 1 if a fork could copy a lock that another thread holds, or if the number of usable processors is unknown.
    """
    if threading.active_count() > 1 or not hasattr(os, "sched_getaffinity"):
        return 1
    return max(1, min(len(os.sched_getaffinity(0)), items // FEWEST))


def _start(function: Callable[[Item], Result], items: Sequence[Item]) -> tuple[int, int]:
    """Fork a process that writes the pickled results to a pipe. Return the process id and the pipe."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    with suppress(BaseException), os.fdopen(writer, "wb") as pipe:
        pipe.write(pickle.dumps([function(item) for item in items]))
        pipe.flush()
        os._exit(0)
    os._exit(1)


def _finish(pid: int, reader: int) -> list[Any] | None:
    """Return the results of the process, or None if the process failed."""
    with os.fdopen(reader, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    return pickle.loads(data) if status == 0 else None
