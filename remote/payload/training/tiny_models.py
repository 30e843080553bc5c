"""Small models of real architectures with random weights, saved so that the real `from_pretrained` loads them.

They allow a full run on a CPU without a network. The models are not pretrained and learn little.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import shutil
import sys
import tempfile
from typing import Iterable

from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families import tiny_checkpoint, whisper
from remote.payload.training.families.registry import TINY
from remote.payload.training.prompts import PROMPTS
from remote.protocol.exits import ExitCode


def tiny_model(name: str, cache: str, corpus: Iterable[str]) -> str:
    """Return the folder of the tiny model `name`, created atomically if `cache` does not have it.

    The tokenizer is trained on the prompts and `corpus`, so other data produce another model.
    """
    if name not in TINY:
        raise TrainingFailed(
            "model-unknown", f"no model {name}; available: {', '.join(sorted(TINY))}", exit_code=ExitCode.USAGE
        )
    make, texts = TINY[name].make_tiny, [*PROMPTS.values(), *corpus]
    recipe = [inspect.getsource(part) for part in (tiny_checkpoint, whisper, sys.modules[make.__module__])]
    digest = hashlib.sha256(json.dumps([recipe, name, texts]).encode()).hexdigest()[:12]
    folder = os.path.join(cache, "models", f"{name.replace('/', '-')}-{digest}")
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        part = tempfile.mkdtemp(dir=os.path.dirname(folder))
        make(part, texts)
        try:
            os.replace(part, folder)
        except OSError:
            shutil.rmtree(part)
    return folder
