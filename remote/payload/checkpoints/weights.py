"""The operations on a run's adapter: list its files with digests, and send their contents."""

from __future__ import annotations

import hashlib
import os
from typing import Any, BinaryIO, Dict, List, Tuple

from remote.payload.checkpoints.adapter import ADAPTER_WEIGHTS, adapter_folder
from remote.payload.checkpoints.files import MANIFEST, STATE, VERDICT
from remote.payload.checkpoints.found import find_checkpoints
from remote.payload.output.job_folder import run_root
from remote.payload.request.call import Call
from remote.payload.request.refusal import Refusal
from remote.protocol.exits import ExitCode
from remote.protocol.layout import RunLayout
from remote.protocol.regular import open_regular
from remote.protocol.segments import SEGMENT

BLOCK = 2**20
MAX_FILES = 1000


def list_weights(call: Call) -> Dict[str, Any]:
    """List the regular files of the adapter's folder with name, size and SHA-256.

    If `checkpoint` is given, list the files of the adapter in that trainer checkpoint. The state of the training is not
    listed.
    """
    folder = _folder(call)
    rows: List[Tuple[str, int, str]] = []
    for name in _names(folder) if not call.args.get("checkpoint") else _adapter_in(folder):
        try:
            with open_regular(os.path.join(folder, name)) as file:
                rows.append((name, os.fstat(file.fileno()).st_size, _digest(file)))
        except OSError:
            continue
    if not rows:
        raise Refusal("not-found", "the run has no adapter yet", where=folder, exit_code=ExitCode.PULL)
    return {"files": rows}


def read_weights(call: Call) -> Dict[str, Any]:
    """Send the contents of files of the adapter as one stream of segments. `wants` is a list of [name, offset]."""
    folder = _folder(call)
    for index, (name, offset) in enumerate(call.args["wants"]):
        with open_regular(os.path.join(folder, name)) as file:
            file.seek(offset)
            while chunk := file.read(BLOCK):
                call.send(SEGMENT.pack(index, 0, len(chunk)) + chunk)
    return {}


def _folder(call: Call) -> str:
    run = RunLayout(run_root(call))
    checkpoint = call.args.get("checkpoint", "")
    if not checkpoint:
        return adapter_folder(run)
    folders = (path for path in find_checkpoints(run.root) if os.path.relpath(path, run.root) == checkpoint)
    folder = next(folders, None)
    if folder is None:
        message = f"the run no longer has {checkpoint}"
        raise Refusal("not-found", message, where=run.root, hint="try again", exit_code=ExitCode.PULL)
    return folder


def _adapter_in(checkpoint: str) -> List[str]:
    """Return the files of a trainer checkpoint that belong to its adapter. The list is empty without an adapter."""
    names = _names(checkpoint)
    if not set(ADAPTER_WEIGHTS).intersection(names):
        return []
    state = (STATE, MANIFEST, VERDICT)
    return [name for name in names if name in ADAPTER_WEIGHTS or not name.endswith((".pt", ".pth", ".bin", *state))]


def _names(folder: str) -> List[str]:
    names = [
        os.path.relpath(os.path.join(root, leaf), folder) for root, _, leaves in os.walk(folder) for leaf in leaves
    ]
    if len(names) > MAX_FILES:
        raise Refusal("too-many", f"more than {MAX_FILES} files in the adapter", where=folder, exit_code=ExitCode.PULL)
    return sorted(names)


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(BLOCK):
        digest.update(chunk)
    return digest.hexdigest()
