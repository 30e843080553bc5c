"""Check that a trainer checkpoint has the required files and that each file is intact. No file is ever unpickled."""

from __future__ import annotations

import importlib
import json
import os
import re
import struct
import zlib
from typing import Any, Dict, List, Optional, Tuple

CHECKPOINT = re.compile(r"checkpoint-(\d+)$")
MANIFEST = "halfstep-manifest.json"
VERDICT = "halfstep-verified.json"
STATE = "trainer_state.json"
INCOMPLETE = "checkpoint-is-incomplete.txt"
"""The file exists while transformers saves a checkpoint after a SIGTERM (trainer_jit_checkpoint.py)."""
MAX_HEADER = 100 * 2**20
WEIGHTS = re.compile(
    r"(adapter_model|model|pytorch_model)(-\d+-of-\d+)?\.(safetensors|bin)$|pytorch_model_fsdp_\d+/|global_step\d+/"
)
OPTIMIZER = re.compile(r"optimizer\.(pt|bin)$|optimizer_\d+/|global_step\d+/")
RANK_STATE = re.compile(r"rng_state_(\d+)\.pth$")


class BrokenCheckpoint(Exception):
    """A checkpoint is incomplete or damaged. The message names the file and the reason."""


def list_names(folder: str) -> List[str]:
    """Return the sorted relative paths of the regular files under `folder`, except halfstep's records."""
    names = []
    for parent, folders, files in os.walk(folder):
        folders.sort()
        for name in files:
            path = os.path.join(parent, name)
            if name not in (MANIFEST, VERDICT) and not name.startswith(".hs-part-") and os.path.isfile(path):
                names.append(os.path.relpath(path, folder))
    return sorted(names)


def judge_names(names: List[str], *, world_size: int, scaler: bool) -> str:
    """Return the first problem with `names`, or "" if they include all files that a resume needs.

    transformers loads optimizer and scheduler only if both exist. It ignores a missing scaler silently, and a missing
    random state with one line of output. All four are therefore required (trainer.py, `_load_optimizer_and_scheduler`).
    """
    present = set(names)
    if not any(WEIGHTS.match(name) for name in names):
        return "no weights: neither adapter_model.safetensors nor model.safetensors"
    if any(name.startswith("adapter_model.") for name in names) and "adapter_config.json" not in present:
        return "adapter_config.json is missing"
    if not any(OPTIMIZER.match(name) for name in names):
        return "optimizer.pt is missing: a resume would silently begin with a fresh optimizer"
    if "scheduler.pt" not in present and not any(name.startswith("global_step") for name in names):
        return "scheduler.pt is missing: a resume would silently begin with a fresh optimizer and schedule"
    if scaler and "scaler.pt" not in present:
        return "scaler.pt is missing: a resume would silently begin with a fresh loss scale"
    return judge_random_states(present, world_size) or ("" if STATE in present else f"{STATE} is missing")


def judge_random_states(present: Any, world_size: int) -> str:
    """Return the problem if the random state of a rank is missing, otherwise ""."""
    ranks = {int(match.group(1)) for match in map(RANK_STATE.match, present) if match}
    if world_size <= 1 and not ranks:
        return "" if "rng_state.pth" in present else "rng_state.pth is missing"
    numbers = range(max(world_size, max(ranks, default=0) + 1))  # not as a set: a name may contain any number
    missing = next((rank for rank in numbers if rank not in ranks), None)
    return "" if missing is None else f"rng_state_{missing}.pth is missing"


def judge_file(folder: str, name: str) -> str:
    """Return how the structure of the file is damaged, or "" if no damage is found."""
    path = os.path.join(folder, name)
    if name == INCOMPLETE:
        return f"{name} is present, so the save was interrupted"
    if os.path.getsize(path) == 0:
        return f"{name}: empty file"
    if name.endswith(".safetensors"):
        return _judge_safetensors(path, name)
    if name.endswith((".pt", ".pth")):
        return _judge_zip(path, name)
    if name.endswith(".json"):
        return "" if _read_json(path) is not None else f"{name}: not JSON"
    return ""


def _judge_safetensors(path: str, name: str) -> str:
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        head = file.read(8)
        length = struct.unpack("<Q", head)[0] if len(head) == 8 else MAX_HEADER + 1
        if length > min(MAX_HEADER, size - 8):
            return f"{name}: no safetensors header"
        try:
            tensors: Dict[str, Any] = json.loads(file.read(length))
            spans = sorted(_span(tensor) for key, tensor in tensors.items() if key != "__metadata__")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return f"{name}: its safetensors header is damaged"
    end = 0
    for start, stop in spans:
        if start != end:
            return f"{name}: gaps between its tensors"
        end = stop
    expected_size = 8 + length + end
    return "" if expected_size == size else f"{name}: {size} bytes, {expected_size} according to its header"


def _span(tensor: Any) -> Tuple[int, int]:
    start, stop = tensor["data_offsets"]
    if not isinstance(start, int) or not isinstance(stop, int):
        raise TypeError("offsets that are not integers")
    return start, stop


def _judge_zip(path: str, name: str) -> str:
    zipfile = importlib.import_module("zipfile")  # A survey reads checkpoints without it.
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, RuntimeError) as error:
        return f"{name}: {error}"
    return f"{name}: {broken} has a wrong checksum" if broken else ""


def read_step(folder: str) -> Optional[int]:
    """Return the global step in trainer_state.json, or None if the file is missing or damaged."""
    state = _read_json(os.path.join(folder, STATE))
    step = state.get("global_step") if isinstance(state, dict) else None
    return step if isinstance(step, int) else None


def _read_json(path: str) -> Any:
    try:
        with open(path, "rb") as file:
            return json.loads(file.read())
    except (OSError, ValueError, RecursionError):
        return None


def step_of(folder: str) -> int:
    """Return the step in a folder's name, or -1 if the name is not that of a checkpoint."""
    match = CHECKPOINT.match(os.path.basename(folder.rstrip("/")))
    return int(match.group(1)) if match else -1
