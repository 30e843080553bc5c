"""The operations on a run's adapter: list its files with their digests, send their bytes."""

from __future__ import annotations

import hashlib
import os
from typing import Any, BinaryIO, Dict, List, Tuple

from remote.payload.checkpoints.adapter import adapter_folder
from remote.payload.output.event_files import open_regular
from remote.payload.output.job_folder import run_root
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout
from remote.protocol.segments import SEGMENT

BLOCK = 2**20
MAX_FILES = 1000


def list_weights(call: Call) -> Dict[str, Any]:
    """List the regular files of the adapter's folder: name, size and SHA-256."""
    folder = adapter_folder(RunLayout(run_root(call)))
    rows: List[Tuple[str, int, str]] = []
    for name in _names(folder):
        try:
            with open_regular(os.path.join(folder, name)) as file:
                rows.append((name, os.fstat(file.fileno()).st_size, _digest(file)))
        except OSError:
            continue
    if not rows:
        raise Refusal("not-found", "the run has no adapter yet", where=folder, exit_code=ExitCode.PULL)
    return {"files": rows}


def read_weights(call: Call) -> Dict[str, Any]:
    """Send files of the adapter from given offsets as one stream of segments. `wants`: [name, offset]."""
    folder = adapter_folder(RunLayout(run_root(call)))
    for index, (name, offset) in enumerate(call.args["wants"]):
        with open_regular(os.path.join(folder, name)) as file:
            file.seek(offset)
            while chunk := file.read(BLOCK):
                call.send(SEGMENT.pack(index, 0, len(chunk)) + chunk)
    return {}


def _names(folder: str) -> List[str]:
    found = [
        os.path.relpath(os.path.join(root, leaf), folder) for root, _, leaves in os.walk(folder) for leaf in leaves
    ]
    if len(found) > MAX_FILES:
        raise Refusal("too-many", f"more than {MAX_FILES} files in the adapter", where=folder, exit_code=ExitCode.PULL)
    return sorted(found)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(BLOCK):
        digest.update(chunk)
    return digest.hexdigest()
