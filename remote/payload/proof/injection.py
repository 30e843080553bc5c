"""Inject the hooks into a command: a folder for PYTHONPATH, and the environment variables that enable them."""

from __future__ import annotations

import contextlib
import os
import pkgutil
import sys
from importlib.util import MAGIC_NUMBER
from typing import Dict, Mapping, Sequence

PACKAGE = "halfstep_hooks"
SITE = "site.py"
BUILT_IN = (("{payload}", "train"), ("{payload}", "evaluate"), ("{payload}", "merge"))
# If another sitecustomize comes first on the path, Python still imports usercustomize, unless the user's site-packages
# are disabled, as in most venvs.
CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
MODULES = (
    "__init__.py",
    "accumulation.py",
    "activation.py",
    "attention.py",
    "averages.py",
    "autocast.py",
    "batch_report.py",
    "batches.py",
    "bounded.py",
    "changes.py",
    "counterfactual.py",
    "device.py",
    "eval_mode.py",
    "exits.py",
    "foreign.py",
    "gradient_flow.py",
    "hold.py",
    "imports.py",
    "inputs.py",
    "interruptions.py",
    "labels.py",
    "loss_graph.py",
    "modules.py",
    "monitor.py",
    "origins.py",
    "parts.py",
    "patches.py",
    "patching.py",
    "places.py",
    "private_store.py",
    "progress.py",
    "proof.py",
    "quiet.py",
    "random_state.py",
    "recorder.py",
    "report.py",
    "resumed.py",
    "row_ends.py",
    "rules.py",
    "runtime.py",
    "runtime_patches.py",
    "runtime_scaling.py",
    "runtime_weights.py",
    "loss_scale.py",
    "schedules.py",
    "signed_objects.py",
    "step.py",
    "step_log.py",
    "stores.py",
    "summary.py",
    "tables.py",
    "measured_step.py",
    "targets.py",
    "tensors.py",
    "tied.py",
    "trained.py",
    "watch.py",
    "weights_report.py",
    "writes.py",
)


def write_hooks(folder: str) -> str:
    """Write CUSTOMIZE and the hooks to `folder`, and return `folder`, which must be first on PYTHONPATH.

    The folder belongs to one proof or one job, so nothing is synced: after a power cut, it is not used again. If the
    payload contains byte code of this Python, it is written too, because every process of the command imports the hooks
    before its first line.
    """
    package = os.path.join(folder, PACKAGE)
    byte_code = os.path.join(package, "__pycache__")
    os.makedirs(byte_code, exist_ok=True)
    for name in CUSTOMIZE:
        _write(os.path.join(folder, name), _read(SITE))
    for name in MODULES:
        _write(os.path.join(package, name), _read(name))
        with contextlib.suppress(OSError):
            code = _read(f"{name}c")
            if code.startswith(MAGIC_NUMBER):
                _write(os.path.join(byte_code, f"{name[:-3]}.{sys.implementation.cache_tag}.pyc"), code)
    return folder


def _read(name: str) -> bytes:
    # pkgutil reads from the payload's zip as well as from a folder.
    data = pkgutil.get_data("remote.payload.proof", f"hooks/{name}")
    assert data is not None, name
    return data


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


def python_path(folder: str, environment: Mapping[str, str]) -> str:
    """Return PYTHONPATH with the folder of the hooks in front of its earlier value."""
    before = environment.get("PYTHONPATH", "")
    return f"{folder}{os.pathsep}{before}" if before else folder


def watch_environment(run_dir: str, folder: str, environment: Mapping[str, str], *, progress: bool) -> Dict[str, str]:
    """Return the variables with which the hooks in `folder` watch every optimizer step of a job.

    `progress` is False if the trainer writes progress.json itself.
    """
    return {
        "HALFSTEP_WATCH": run_dir,
        "HALFSTEP_WATCH_PROGRESS": "1" if progress else "0",
        "PYTHONPATH": python_path(folder, environment),
    }


def runs_built_in_trainer(argv: Sequence[str]) -> bool:
    """Return True if the command runs the built-in trainer or its evaluation, which write progress.json themselves."""
    return any(pair in BUILT_IN for pair in zip(argv, argv[1:]))
