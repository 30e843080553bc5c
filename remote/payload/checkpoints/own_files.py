"""Find the files with weights that a script saved in a format of its own. They are listed, never verified."""

from __future__ import annotations

import os
import re
from functools import partial
from typing import Iterable, List, Tuple

from remote.payload.checkpoints.published import BROKEN
from remote.payload.output.event_files import find_output_files
from remote.protocol.data_files import HEAD, without_data
from remote.protocol.regular import open_regular
from remote.protocol.saved import Checkpoint

ROOTS = ("checkpoints", "code")
ENDINGS = (".safetensors", ".pt", ".pth", ".th", ".bin", ".ckpt", ".tar")
NO_WEIGHTS = ("optimizer", "scheduler", "scaler", "sampler", "rng_state", "training_args", "random_states")
NUMBERED = re.compile(r"[A-Za-z]{1,12}_\d{4,}$")
"""Names without an ending, such as g_00010000 of HiFi-GAN."""
MOST = 100


def newest_own_files(run_root: str, checkpoints: Iterable[Checkpoint]) -> Tuple[str, ...]:
    """Return the names of at most MOST files with weights that the jobs of the run wrote, newest first.

    Files in one of the `checkpoints`, those that were sent with the project, and data such as features are left out.
    Names are relative to the run's folder.
    """
    listed = tuple(f"{checkpoint.name}/" for checkpoint in checkpoints)
    rows: List[Tuple[int, str]] = []
    for name, path in find_output_files(run_root, ROOTS, _may_be_weights):
        if not name.startswith(listed) and f"/{BROKEN}" not in name:
            try:
                rows.append((os.lstat(path).st_mtime_ns, name))
            except OSError:
                continue
    newest = [name for _, name in sorted(rows, key=lambda row: (-row[0], row[1]))]
    return tuple(without_data(newest, partial(_head, run_root))[:MOST])


def _head(run_root: str, name: str) -> bytes:
    try:
        with open_regular(os.path.join(run_root, name)) as file:
            return file.read(HEAD)
    except (OSError, ValueError):
        return b""


def _may_be_weights(name: str) -> bool:
    return not name.startswith(NO_WEIGHTS) and (name.endswith(ENDINGS) or NUMBERED.match(name) is not None)
