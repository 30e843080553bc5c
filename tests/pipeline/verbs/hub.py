"""A stand-in for the HTTP interface of a hub, and a project whose adapter `push` uploads to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

RUN = "speech-0123abcd"
TOKEN = "hf_" + "x" * 34
WEIGHTS = b"\x08\0\0\0\0\0\0\0{}      "
SETTINGS = {"r": 64, "lora_alpha": 128, "lora_dropout": 0.05, "task_type": "CAUSAL_LM", "base_model_name_or_path": "/x"}


@dataclass
class Hub:
    """The repositories that were created, the files of the last commit, and the answer of the server."""

    address: str = ""
    created: list[dict[str, Any]] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    refuses: int = 0


def pushed(project: Path, hub: Hub, *words: str, token: str = TOKEN) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "pipeline", "push", *words, "--json"],
        cwd=project,
        env={
            **os.environ,
            "HF_ENDPOINT": hub.address,
            "HF_TOKEN": token,
            "HF_HUB_DISABLE_XET": "1",
            "HOME": str(project.parent),
            "PYTHONPATH": str(Path(__file__).parents[3]),
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert TOKEN not in done.stdout + done.stderr
    return done.returncode, json.loads(done.stdout)
