"""The adapter a run made: its digest, not computed again while the file stays what it was when the job ended."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from remote.payload.checkpoints import signature
from remote.payload.records import read_record, write_record
from remote.protocol.layout import RunLayout

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "model.safetensors")
CHUNK = 4 * 2**20


@dataclass(frozen=True)
class Seal:
    """What the weights' file looked like when it had that digest."""

    name: str
    signature: str
    sha256: str


def _seal_path(run: RunLayout) -> str:
    return f"{run.root}/adapter.json"


def adapter_digest(run: RunLayout) -> str:
    """SHA-256 of the adapter's weights; "" where there are none yet."""
    name = _weights(run)
    if not name:
        return ""
    seal = read_record(_seal_path(run), Seal)
    if seal is not None and (seal.name, seal.signature) == (name, signature(run.adapter, [name])):
        return seal.sha256
    return _digest(os.path.join(run.adapter, name))


def seal_adapter(run: RunLayout) -> None:
    """Later looks know the adapter's digest from its file's size, times and inode; for a job that has ended."""
    name = _weights(run)
    if name:
        before = signature(run.adapter, [name])
        write_record(_seal_path(run), Seal(name, before, _digest(os.path.join(run.adapter, name))))


def _weights(run: RunLayout) -> str:
    return next((name for name in WEIGHTS if os.path.isfile(os.path.join(run.adapter, name))), "")


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()
