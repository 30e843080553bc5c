"""Killed at system calls inside its save, the trainer always resumes from a verified checkpoint."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.protocol.layout import ProjectLayout, RunLayout
from remote.protocol.training import TrainingPaths
from remote.protocol.values import dumps
from tests.remote.training.conftest import ENVIRONMENT, QWEN2, ROOT

KILLS = 200


@pytest.mark.train
@pytest.mark.timeout(1800)
def test_a_trainer_killed_at_200_calls_of_its_save_ends_with_the_weights_of_one_that_was_not(
    make_spec: Callable[..., Any], tmp_path: Path
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("no strace on this machine")
    run = RunLayout(str(tmp_path / ProjectLayout("speech").run("run-1").root))
    paths = TrainingPaths(
        run.root, run.checkpoints, str(tmp_path / "tensorboard"), run.adapter, str(tmp_path / "cache")
    )
    loop = {"epochs": 1, "gradient_accumulation": 1, "max_steps": 3, "save_steps": 1, "keep_checkpoints": 1}
    made = make_spec(model=QWEN2, samples=6, gradient_checkpointing=False, **loop)
    spec = dataclasses.replace(made, paths=paths, data=dataclasses.replace(made.data, tasks=("mdd",)))
    (tmp_path / "spec.json").write_bytes(dumps(spec))
    done = subprocess.run(
        [sys.executable, "-m", "tests.remote.training.killed_saves", str(tmp_path / "spec.json"), str(KILLS)],
        cwd=ROOT, env={**os.environ, **ENVIRONMENT}, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert len({row["call"] for row in found["killed"]}) == KILLS
    assert {row["adapter"] for row in found["killed"]} == {found["whole"]}
    steps = collections.Counter(row["step"] for row in found["killed"])
    assert set(steps) == {1, 2}, "kills before and after the new checkpoint was complete"
    assert any(row["aside"] for row in found["killed"]), "an incomplete checkpoint must have been set aside"
