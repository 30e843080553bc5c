"""Query the GPUs with nvidia-smi and a deadline, because a lost GPU makes nvidia-smi hang or print wrong values."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Dict, List, Optional, Sequence, Tuple

from remote.payload.processes.identity import read_environment
from remote.protocol.dataclass import dataclass
from remote.protocol.machine import NO_DRIVER, Driver, Gpu, GpuProcess

DEADLINE_S = 10.0
MEBI = 2**20
CARD_FIELDS = "index,uuid,name,compute_cap,memory.total,memory.used,compute_mode,driver_version"
PROCESS_FIELDS = "gpu_uuid,pid,process_name,used_memory"


@dataclass(frozen=True)
class Query:
    """One running nvidia-smi.

    If it could not be started, `process` is None and `reason` is the error, or "" if nvidia-smi is not installed.
    """

    process: Optional[subprocess.Popen[bytes]]
    reason: str = ""


@dataclass(frozen=True)
class GpuQueries:
    """Two nvidia-smi queries that run in the background while the survey reads other facts.

    `until` is their deadline in monotonic seconds.
    """

    cards: Query
    processes: Query
    until: float


def start_gpu_queries(deadline_s: float = DEADLINE_S) -> GpuQueries:
    """Start two nvidia-smi queries. `read_gpus` reads their output."""
    until = time.monotonic() + deadline_s
    return GpuQueries(_start(f"--query-gpu={CARD_FIELDS}"), _start(f"--query-compute-apps={PROCESS_FIELDS}"), until)


def read_gpus(
    queries: GpuQueries, wanted: Optional[Sequence[int]] = None, card: Optional[Tuple[str, Tuple[int, int]]] = None
) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """Return the driver, and the GPUs with the `wanted` indices (None means all).

    `card` (name, compute capability) is assumed only if there is no driver at all. A driver that hangs or has lost a
    GPU is an error, because an assumed GPU must not hide a real GPU.
    """
    if queries.cards.process is None and not queries.cards.reason:
        return Driver(error=NO_DRIVER), _assumed_gpus(card)
    code, text = _answer(queries.cards, queries.until)
    if "compute_cap" in text and code != 0:
        code, text = _query_old_driver(queries.until)
    driver, gpus = parse_cards(code, text)
    processes = _answer(queries.processes, queries.until)
    if driver.error:
        return Driver(driver.version, driver.cuda, " ".join(filter(None, (driver.error, _last_kernel_error())))), ()
    gpus = _with_processes(gpus, processes[1] if processes[0] == 0 else "")
    chosen = tuple(gpu for gpu in gpus if wanted is None or gpu.index in wanted)
    return driver, chosen or (_assumed_gpus(card) if not gpus else ())


def _start(query: str) -> Query:
    try:
        process = subprocess.Popen(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError:
        return Query(None)
    except OSError as error:
        return Query(None, f"nvidia-smi: {error.strerror}")
    return Query(process)


def _answer(query: Query, until: float) -> Tuple[Optional[int], str]:
    """Return exit status and output of the query, or (None, reason) if it does not end in time."""
    process = query.process
    if process is None:
        return None, query.reason
    try:
        output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        # A process that is stuck in the driver cannot be killed, so this function does not wait for its end.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        return None, "nvidia-smi does not answer: the driver or a GPU hangs"
    return process.returncode, output.decode("utf-8", "replace")


def _query_old_driver(until: float) -> Tuple[Optional[int], str]:
    """Query a driver older than 510, and return the result like `_answer`.

    Such a driver's nvidia-smi has no field `compute_cap`, so the capabilities are read from libcuda.
    """
    code, text = _answer(_start(f"--query-gpu={CARD_FIELDS.replace(',compute_cap', '')}"), until)
    payload = os.path.abspath(sys.argv[0])
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", payload, "probe-cuda"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=max(0.1, until - time.monotonic()),
            check=False,
        )
        capabilities: Dict[str, str] = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        capabilities = {}
    rows = [line.split(", ") for line in text.splitlines()]
    return code, "\n".join(
        ", ".join([*row[:3], capabilities.get(row[1], "unknown capability"), *row[3:]]) if len(row) == 7 else row[0]
        for row in rows
    )


def _last_kernel_error() -> str:
    """Return the NVIDIA driver's last Xid error from the kernel's log, or "" if no error is found."""
    try:
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=2.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if "NVRM: Xid" in line]
    return f"kernel: {lines[-1].strip()}" if lines else ""


def parse_cards(code: Optional[int], text: str) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """Parse the output of `nvidia-smi --query-gpu`. A lost GPU is returned as an error, even if the other GPUs work."""
    gpus: List[Gpu] = []
    version = ""
    problems: List[str] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 8 or not fields[0].isdigit() or "." not in fields[3]:
            problems.append(line)
            continue
        index, uuid, name, capability, total, used, mode, version = fields
        major, _, minor = capability.partition(".")
        memory = (_mebibytes(total), _mebibytes(used))
        gpus.append(Gpu(int(index), uuid, name, (int(major), int(minor)), *memory, compute_mode=mode))
    if code == 0 and not problems:
        return Driver(version), tuple(gpus)
    if code is None:
        return Driver(error=text), ()
    if "No devices were found" in text:
        return Driver(version), ()
    return Driver(version, error=" ".join(problems)[:500] or f"nvidia-smi: exit status {code}"), tuple(gpus)


def _mebibytes(text: str) -> int:
    return int(text) * MEBI if text.isdigit() else 0


def _with_processes(gpus: Tuple[Gpu, ...], text: str) -> Tuple[Gpu, ...]:
    by_gpu: Dict[str, List[GpuProcess]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= 4 and fields[1].isdigit():
            uuid, pid, memory = fields[0], int(fields[1]), fields[-1]
            name = ", ".join(fields[2:-1])
            by_gpu.setdefault(uuid, []).append(GpuProcess(pid, name, _mebibytes(memory), _owner(pid), _run_of(pid)))
    return tuple(replace(gpu, processes=tuple(by_gpu.get(gpu.uuid, ()))) for gpu in gpus)


def _owner(pid: int) -> str:
    """Return the user who owns the process, or "" if the process is not visible."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        return pwd.getpwuid(uid).pw_name
    except (OSError, KeyError):
        return ""


def _run_of(pid: int) -> str:
    """Return the id of the run that the process belongs to, or "". The id is in the environment of the process."""
    for pair in read_environment(pid):
        if pair.startswith(b"HALFSTEP_RUN_DIR="):
            return os.path.basename(os.fsdecode(pair.partition(b"=")[2]).rstrip("/"))
    return ""


def _assumed_gpus(card: Optional[Tuple[str, Tuple[int, int]]]) -> Tuple[Gpu, ...]:
    if card is None:
        return ()
    name, capability = card
    return (Gpu(0, f"assumed-{name}", name, capability, 0, assumed=True),)
