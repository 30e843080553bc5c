"""Putting the hooks into a command from outside: a folder for PYTHONPATH, and the variables that switch them on."""

from __future__ import annotations

import os
import pkgutil
from typing import Dict, Mapping, Sequence

from remote.payload.files.atomic import write_whole

PACKAGE = "halfstep_hooks"
SITE = "site.py"
# Where another sitecustomize comes first on the path, Python still imports the second one, save in most venvs.
CUSTOMIZE = ("sitecustomize.py", "usercustomize.py")
MODULES = (
    "__init__.py",
    "anomalies.py",
    "arm.py",
    "attempts.py",
    "attention.py",
    "autocast.py",
    "device.py",
    "exits.py",
    "finding.py",
    "hold.py",
    "labels.py",
    "modules.py",
    "opening.py",
    "proof.py",
    "quiet.py",
    "recorder.py",
    "resumed.py",
    "scaled.py",
    "scaler_seams.py",
    "scaling.py",
    "seams.py",
    "tables.py",
    "tensors.py",
    "trained.py",
    "watch.py",
)


def write_hooks(folder: str) -> str:
    """`folder` holds CUSTOMIZE and the hooks beside them; put it first on PYTHONPATH. Returns the folder."""
    for name in CUSTOMIZE:
        write_whole(os.path.join(folder, name), _source(SITE))
    for name in MODULES:
        write_whole(os.path.join(folder, PACKAGE, name), _source(name))
    return folder


def _source(name: str) -> bytes:
    # pkgutil reads out of the payload's zip as well as out of a folder.
    data = pkgutil.get_data("remote.payload.proof", f"hooks/{name}")
    assert data is not None, name
    return data


def python_path(folder: str, environment: Mapping[str, str]) -> str:
    """PYTHONPATH with the hooks first and what was there behind them."""
    before = environment.get("PYTHONPATH", "")
    return f"{folder}{os.pathsep}{before}" if before else folder


def watch_environment(run_dir: str, folder: str, environment: Mapping[str, str], *, progress: bool) -> Dict[str, str]:
    """What a job's environment needs so that every optimizer step is watched, the hooks lying in `folder`.

    `progress` False where the trainer writes progress.json itself.
    """
    return {
        "HALFSTEP_WATCH": run_dir,
        "HALFSTEP_WATCH_PROGRESS": "1" if progress else "0",
        "PYTHONPATH": python_path(folder, environment),
    }


def runs_built_in_trainer(argv: Sequence[str]) -> bool:
    """The command is ours, which writes its own progress."""
    return any(pair == ("{payload}", "train") for pair in zip(argv, argv[1:]))
