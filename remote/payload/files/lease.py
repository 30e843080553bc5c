"""Leases: locks for file systems without kernel locks. The holder creates a file and increments a counter in it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from typing import Optional

from remote.payload.processes.identity import boot_id, is_alive, pid_namespace, read_process
from remote.protocol.dataclass import dataclass

HEARTBEAT_S = 2.0
STALE_AFTER_S = 8.0
POLL_S = 0.1
COUNTER_WIDTH = 12


@dataclass(frozen=True)
class Holder:
    """The holder of a lease, and its counter `beats`. `nonce` is "" if the file is missing or incomplete."""

    beats: str = ""
    nonce: str = ""
    boot: str = ""
    namespace: str = ""
    pid: int = 0
    ticks: int = 0
    words: str = ""


class Lease:
    """A lease that is held until `release`.

    A thread increments the counter in the file, so that other machines can see that the holder is alive.
    """

    def __init__(self, path: str, nonce: str, descriptor: int) -> None:
        self._path = path
        self._nonce = nonce
        self._descriptor = descriptor
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        beats = 0
        while not self._ended.wait(HEARTBEAT_S):
            beats += 1
            with contextlib.suppress(OSError):
                os.pwrite(self._descriptor, f"{beats:0{COUNTER_WIDTH}d}".encode("ascii"), 0)

    def release(self) -> None:
        self._ended.set()
        self._thread.join()
        os.close(self._descriptor)
        if read_holder(self._path).nonce == self._nonce:
            os.unlink(self._path)


def take_lease(path: str, description: str, deadline: float) -> Optional[Lease]:
    """Acquire the lease, or return None if another holder is still alive at the monotonic time `deadline`.

    Clocks of different machines are never compared. A holder on another machine counts as dead if its counter does not
    change for 8 s.
    """
    while True:
        lease = _create(path, description)
        if lease is not None:
            return lease
        seen = read_holder(path)
        if not is_held(path, seen):
            _break(path, seen)
        elif time.monotonic() >= deadline:
            return None
        else:
            time.sleep(POLL_S)


def _create(path: str, description: str) -> Optional[Lease]:
    nonce = secrets.token_hex(16)
    me = read_process(os.getpid())
    row = {"nonce": nonce, "boot": boot_id(), "namespace": pid_namespace(), "pid": os.getpid(), "words": description}
    row["ticks"] = me.ticks if me is not None else 0
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError:
        return None
    os.write(descriptor, f"{0:0{COUNTER_WIDTH}d}\n{json.dumps(row)}".encode())
    os.fsync(descriptor)
    return Lease(path, nonce, descriptor)


def read_holder(path: str) -> Holder:
    """Return the holder of the lease, or an empty Holder if the file does not exist."""
    try:
        with open(path, encoding="utf-8") as file:
            beats, _, text = file.read().partition("\n")
        return Holder(beats=beats, **json.loads(text))
    except FileNotFoundError:
        return Holder()
    except (OSError, ValueError, TypeError):
        return Holder(beats="torn")


def is_held(path: str, seen: Holder) -> bool:
    """Return True if the holder is alive.

    A holder on this machine is alive if its process is alive. A holder on another machine is alive if its counter
    changes within 8 s.
    """
    if not seen.beats:
        return False
    if seen.boot == boot_id() and seen.namespace == pid_namespace():
        return is_alive(seen.pid, seen.ticks, seen.boot)
    end = time.monotonic() + STALE_AFTER_S
    while time.monotonic() < end:
        now = read_holder(path)
        if not now.beats:
            return False
        if (now.nonce, now.beats) != (seen.nonce, seen.beats):
            return True
        time.sleep(POLL_S)
    return False


def _break(path: str, dead: Holder) -> None:
    """Remove the file of a dead holder, unless another holder has replaced it in the meantime."""
    aside = f"{path}.dead-{secrets.token_hex(8)}"
    try:
        if read_holder(path).nonce != dead.nonce:
            return
        os.rename(path, aside)
    except FileNotFoundError:
        return
    if read_holder(aside).nonce != dead.nonce:
        with contextlib.suppress(FileExistsError):
            os.link(aside, path)
    os.unlink(aside)
