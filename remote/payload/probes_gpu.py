"""The cards as the driver tells them, within a deadline: a card off the bus makes nvidia-smi hang or lie."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from typing import Dict, List, Optional, Sequence, Tuple

from remote.payload.processes import read_environment
from remote.protocol.machine import Driver, Gpu, GpuProcess

DEADLINE_S = 10.0
MEBI = 2**20
CARD_FIELDS = "index,uuid,name,compute_cap,memory.total,memory.used,compute_mode,driver_version"
PROCESS_FIELDS = "gpu_uuid,pid,process_name,used_memory"


def read_gpus(
    wanted: Optional[Sequence[int]] = None, card: Optional[Tuple[str, Tuple[int, int]]] = None
) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """The driver, and the cards of those numbers (all, where none are named).

    `card` (name, compute capability) stands where there is no driver at all; one that hangs or has lost its card is
    told as an error, for a real card is never covered up by an assumed one.
    """
    code, text = _ask(["nvidia-smi", f"--query-gpu={CARD_FIELDS}", "--format=csv,noheader,nounits"])
    if code is None and text == "":
        return Driver(error="no nvidia-smi on PATH"), _assumed(card)
    driver, gpus = parse_cards(code, text)
    if driver.error:
        return driver, ()
    if gpus:
        code, text = _ask(["nvidia-smi", f"--query-compute-apps={PROCESS_FIELDS}", "--format=csv,noheader,nounits"])
        gpus = _with_processes(gpus, text if code == 0 else "")
    chosen = tuple(gpu for gpu in gpus if wanted is None or gpu.index in wanted)
    return driver, chosen or (_assumed(card) if not gpus else ())


def _ask(argv: List[str]) -> Tuple[Optional[int], str]:
    """Exit status and output; (None, "") where the command is not there, (None, reason) where it did not end."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
    except FileNotFoundError:
        return None, ""
    except OSError as error:
        return None, f"{argv[0]}: {error.strerror}"
    try:
        output, _ = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        # A process stuck in the driver cannot even be killed: it is told to end and not waited for.
        os.killpg(process.pid, signal.SIGKILL)
        return None, f"nvidia-smi did not answer in {DEADLINE_S:.0f} s: the driver or the card hangs"
    return process.returncode, output.decode("utf-8", "replace")


def parse_cards(code: Optional[int], text: str) -> Tuple[Driver, Tuple[Gpu, ...]]:
    """What `nvidia-smi --query-gpu` said. Some cards may be well while another one is lost: then that is the error."""
    gpus: List[Gpu] = []
    driver = ""
    problems: List[str] = []
    for line in filter(None, (line.strip() for line in text.splitlines())):
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != 8 or not fields[0].isdigit() or "." not in fields[3]:
            problems.append(line)
            continue
        index, uuid, name, capability, total, used, mode, driver = fields
        major, _, minor = capability.partition(".")
        memory = (_mebibytes(total), _mebibytes(used))
        gpus.append(Gpu(int(index), uuid, name, (int(major), int(minor)), *memory, compute_mode=mode))
    if code == 0 and not problems:
        return Driver(driver), tuple(gpus)
    if "No devices were found" in text:
        return Driver(driver), ()
    return Driver(driver, error=" ".join(problems)[:500] or f"nvidia-smi ended with {code}"), tuple(gpus)


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
    return tuple(
        Gpu(
            gpu.index,
            gpu.uuid,
            gpu.name,
            gpu.capability,
            gpu.memory_bytes,
            gpu.used_bytes,
            gpu.compute_mode,
            tuple(by_card.get(gpu.uuid, ())),
        )
        for gpu in gpus
    )


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
