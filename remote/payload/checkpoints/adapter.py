"""The folder and the digest of a run's adapter. The digest is cached until the file changes."""

from __future__ import annotations

import hashlib
import os
from typing import Tuple

from remote.payload.checkpoints.files import step_of
from remote.payload.checkpoints.published import BROKEN, signature
from remote.payload.files.records import read_record, write_record
from remote.payload.output.event_files import find_output_files
from remote.protocol.dataclass import dataclass
from remote.protocol.layout import RunLayout

WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin", "model.safetensors")
# A full model that a script saves in the same folder as its adapter is not downloaded.
ADAPTER_WEIGHTS = WEIGHTS[:2]
ADAPTER_ROOTS = ("checkpoints", "code")
CHUNK = 4 * 2**20


@dataclass(frozen=True)
class AdapterRecord:
    """The content of adapter.json. The digest of the weights is valid while the weights' file has this `signature`.

    `folder` is relative to the run's folder.
    """

    name: str
    signature: str
    sha256: str
    folder: str = "adapter"


def _record_path(run: RunLayout) -> str:
    return f"{run.root}/adapter.json"


def adapter_folder(run: RunLayout) -> str:
    """Return the folder of the run's adapter: adapter/, or the folder that `record_adapter` has stored."""
    record = read_record(_record_path(run), AdapterRecord)
    if record is None or _weights(run.adapter):
        return run.adapter
    return os.path.join(run.root, record.folder)


def adapter_digest(run: RunLayout) -> str:
    """Return the SHA-256 of the adapter's weights, or "" if there are none yet."""
    folder = adapter_folder(run)
    name = _weights(folder)
    if not name:
        return ""
    record = read_record(_record_path(run), AdapterRecord)
    if record is not None and (record.name, record.signature) == (name, signature(folder, [name])):
        return record.sha256
    return _digest(os.path.join(folder, name))


def record_adapter(run: RunLayout, *, ended_well: bool) -> None:
    """Store the folder and the digest of the adapter after the job, so that later surveys need not read the file.

    If adapter/ has no weights and the job succeeded, an adapter that the script saved elsewhere in the run's folder is
    stored.
    """
    folder = run.adapter
    if not _weights(folder) and ended_well:
        folder = _saved_elsewhere(run.root) or folder
    name = _weights(folder)
    if name:
        before = signature(folder, [name])
        digest = _digest(os.path.join(folder, name))
        write_record(_record_path(run), AdapterRecord(name, before, digest, os.path.relpath(folder, run.root)))


def adapter_saved_since(run: RunLayout, unix: float) -> bool:
    """Return True if an adapter was saved in the run's folder since `unix`, outside of trainer checkpoints."""
    if _changed_since(run.adapter, unix):
        return True
    adapters = find_output_files(run.root, ADAPTER_ROOTS, ADAPTER_WEIGHTS.__contains__)
    return any(
        _changed_since(path, unix) for name, path in adapters if not any(step_of(p) >= 0 for p in name.split("/"))
    )


def _changed_since(path: str, unix: float) -> bool:
    try:
        return os.stat(path).st_mtime >= unix
    except OSError:
        return False


def _saved_elsewhere(run_root: str) -> str:
    """Return the folder of the adapter that was saved last, or "".

    Adapters in trainer checkpoints are the last choice.
    """
    adapters = [
        pair
        for pair in find_output_files(run_root, ADAPTER_ROOTS, ADAPTER_WEIGHTS.__contains__)
        if f"/{BROKEN}" not in pair[0]
    ]
    return os.path.dirname(max(adapters, key=_preference)[1]) if adapters else ""


def _preference(adapter: Tuple[str, str]) -> Tuple[bool, int, int]:
    name, path = adapter
    step = max(step_of(part) for part in name.split("/"))
    return step < 0, step, os.lstat(path).st_mtime_ns


def _weights(folder: str) -> str:
    return next((name for name in WEIGHTS if os.path.isfile(os.path.join(folder, name))), "")


def _digest(path: str) -> str:
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as file:
            while chunk := file.read(CHUNK):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()
