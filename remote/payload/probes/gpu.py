"""The cards as the driver tells them, within a deadline: a card off the bus makes nvidia-smi hang or lie."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import Dict, List, Optional, Sequence, Tuple

from remote.payload.processes.identity import read_environment
from remote.protocol.machine import Driver, Gpu, GpuProcess

DEADLINE_S = 10.0
MEBI = 2**20
CARD_FIELDS = "index,uuid,name,compute_cap,memory.total,memory.used,compute_mode,driver_version"
PROCESS_FIELDS = "gpu_uuid,pid,process_name,used_memory"


@dataclass(frozen=True)
class Question:
    """One command of the driver's under way; `process` None where it could not be started, for the `reason` told."""

    process: Optional[subprocess.Popen[bytes]]
    reason: str = ""


@dataclass(frozen=True)
class Asked:
    """Both questions to the driver, running side by side while other things are looked at."""

    cards: Question
    processes: Question
    until: float


def ask_gpus(deadline_s: float = DEADLINE_S) -> Asked:
    """nvidia-smi was asked; `read_gpus` has the answer."""
    until = time.monotonic() + deadline_s
    return Asked(_ask(f"--query-gpu={CARD_FIELDS}"), _ask(f"--query-compute-apps={PROCESS_FIELDS}"), until)


def read_gpus(
    asked: Asked, wanted: Optional[Sequence[int]] = None, card: Optional[Tuple[str, Tuple[int, int]]] = None
) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """The driver, and the cards of those numbers (all, where none are named).

    `card` (name, compute capability) stands where there is no driver at all; one that hangs or has lost its card is
    told as an error, for a real card is never covered up by an assumed one.
    """
    if asked.cards.process is None and not asked.cards.reason:
        return Driver(error="no nvidia-smi on PATH"), _assumed(card)
    code, text = _answer(asked.cards, asked.until)
    if "compute_cap" in text and code != 0:
        code, text = _ask_old_driver(asked.until)
    driver, gpus = parse_cards(code, text)
    processes = _answer(asked.processes, asked.until)
    if driver.error:
        return Driver(driver.version, driver.cuda, " ".join(filter(None, (driver.error, kernel_says())))), ()
    gpus = _with_processes(gpus, processes[1] if processes[0] == 0 else "")
    chosen = tuple(gpu for gpu in gpus if wanted is None or gpu.index in wanted)
    return driver, chosen or (_assumed(card) if not gpus else ())


def _ask(query: str) -> Question:
    try:
        process = subprocess.Popen(
            ["nvidia-smi", query, "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except FileNotFoundError:
        return Question(None)
    except OSError as error:
        return Question(None, f"nvidia-smi: {error.strerror}")
    return Question(process)


def _answer(question: Question, until: float) -> Tuple[Optional[int], str]:
    """Exit status and output; (None, reason) where there is no answer in time."""
    process = question.process
    if process is None:
        return None, question.reason
    try:
        output, _ = process.communicate(timeout=max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        # A process stuck in the driver cannot even be killed: it is told to end and not waited for.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=0.2)
        return None, "nvidia-smi does not answer: the driver or a card hangs"
    return process.returncode, output.decode("utf-8", "replace")


def _ask_old_driver(until: float) -> Tuple[Optional[int], str]:
    """The same table from a driver before 510, which knows no `compute_cap`: the driver's library tells it by UUID."""
    code, text = _answer(_ask(f"--query-gpu={CARD_FIELDS.replace(',compute_cap', '')}"), until)
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


def kernel_says() -> str:
    """The last error that the NVIDIA driver left in the kernel's log, where that may be read."""
    try:
        done = subprocess.run(["dmesg"], stdin=subprocess.DEVNULL, capture_output=True, timeout=2.0, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if "NVRM: Xid" in line]
    return f"kernel: {lines[-1].strip()}" if lines else ""


def parse_cards(code: Optional[int], text: str) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """What `nvidia-smi --query-gpu` said. Some cards may be well while another one is lost: then that is the error."""
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
    return Driver(version, error=" ".join(problems)[:500] or f"nvidia-smi ended with {code}"), tuple(gpus)


def _mebibytes(text: str) -> int:
    return int(text) * MEBI if text.isdigit() else 0


def _with_processes(gpus: Tuple[Gpu, ...], text: str) -> Tuple[Gpu, ...]:
    by_card: Dict[str, List[GpuProcess]] = {}
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) >= 4 and fields[1].isdigit():
            uuid, pid, memory = fields[0], int(fields[1]), fields[-1]
            name = ", ".join(fields[2:-1])
            by_card.setdefault(uuid, []).append(GpuProcess(pid, name, _mebibytes(memory), owner(pid), our_run(pid)))
    return tuple(replace(gpu, processes=tuple(by_card.get(gpu.uuid, ()))) for gpu in gpus)


def owner(pid: int) -> str:
    """The user whose process that is; "" where it is not ours to see (another container's)."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
        return pwd.getpwuid(uid).pw_name
    except (OSError, KeyError):
        return ""


def our_run(pid: int) -> str:
    """The id of the run that process belongs to, by the mark in its environment; "" for anybody else's."""
    for pair in read_environment(pid):
        if pair.startswith(b"HALFSTEP_RUN_DIR="):
            return os.path.basename(os.fsdecode(pair.partition(b"=")[2]).rstrip("/"))
    return ""


def _assumed(card: Optional[Tuple[str, Tuple[int, int]]]) -> Tuple[Gpu, ...]:
    if card is None:
        return ()
    name, capability = card
    return (Gpu(0, f"assumed-{name}", name, capability, 0, assumed=True),)
