"""Trace a program with strace, and kill it or make it fail at one system call that changes a folder."""

from __future__ import annotations

import collections
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CHANGES = (
    "openat,mkdir,write,writev,pwrite64,fchmod,chmod,fsync,rename,renameat,renameat2,unlink,unlinkat,rmdir,ftruncate"
)


def run_traced(code: str, words: tuple[str, ...], log: Path, *inject: str) -> subprocess.CompletedProcess[str]:
    """Run `python -c CODE WORDS` and write its changing calls to `log`. `inject` are options of strace."""
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine")
    argv = ["strace", "-qq", "-y", "-o", str(log), "-e", f"trace={CHANGES}", *inject]
    argv += [sys.executable, "-B", "-c", code, *words]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(argv, check=False, capture_output=True, text=True, env=environment)


def trace_running(pid: int, log: Path, *inject: str) -> subprocess.Popen[str]:
    """Return strace, attached to a process: it sees all later calls of the process."""
    argv = ["strace", "-y", "-o", str(log), "-e", f"trace={CHANGES}", *inject, "-p", str(pid)]
    strace = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
    assert strace.stderr is not None
    first = strace.stderr.readline()
    assert f"Process {pid} attached" in first, first + strace.stderr.read()
    return strace


def kill_points(log: Path, folder: Path) -> Iterator[tuple[str, int]]:
    """Yield every call in the log that names a path in the folder, as (name, number of such calls so far)."""
    seen: collections.Counter[str] = collections.Counter()
    for line in log.read_text(errors="replace").splitlines():
        name = line.partition("(")[0]
        if name.isidentifier():
            seen[name] += 1
            if str(folder) in line:
                yield name, seen[name]


def kill_at(kill_point: tuple[str, int]) -> str:
    """Return the strace option that kills the program at that call."""
    return f"--inject={kill_point[0]}:signal=KILL:when={kill_point[1]}"
