"""After each cure that `run` applies to the built-in trainer, the resumed training uses each sample once per epoch."""

from __future__ import annotations

import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipeline.diagnosis.cures import Cure, next_cure
from pipeline.diagnosis.diagnose import diagnose_text
from remote.payload.checkpoints.published import newest_verified
from remote.payload.training.device import CONTEXT_BYTES
from remote.payload.training.run import plan_step_memory, prepare
from remote.payload.training.trainer import training_arguments
from remote.policy.precision import judge_precision
from remote.protocol.training import TrainingSpec

pytestmark = [pytest.mark.train, pytest.mark.timeout(900)]
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory."
NOT_FINITE = "halfstep stopped this training: gradient-finite: the gradient norm is nan"
BUSY_CARD = "RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable"
SAMPLES = 24


@pytest.mark.parametrize(
    ("error", "precision", "loop", "expected"),
    [
        (OUT_OF_MEMORY, "fp32", {}, "config:plan-less-memory"),
        (OUT_OF_MEMORY, "fp32", {"micro_batch": 4, "gradient_checkpointing": False}, "config:halve-batch"),
        (NOT_FINITE, "fp16-mixed", {}, "config:precision-auto"),
        (BUSY_CARD, "fp32", {}, "retry"),
    ],
    ids=["plan-less-memory", "halve-batch", "precision-auto", "retry"],
)
def test_each_sample_of_an_epoch_is_trained_once(
    error: str,
    precision: str,
    loop: dict[str, Any],
    expected: str,
    make_spec: Callable[..., Any],
    training: Callable[..., Any],
) -> None:
    cure = next_cure([], diagnose_text(error), {"command": None, "precision": precision, "train": loop, "env": {}})
    assert cure is not None
    assert cure.name == expected
    settings = {"samples": SAMPLES, "batch_size": 4, "gradient_accumulation": 2, "epochs": 2, "save_steps": 1}
    spec = on_a_small_card(make_spec(requested=precision, **settings, **loop))
    process = training(spec).start()
    for line in process.stdout:
        if line.startswith("step 4/6"):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate(timeout=300)
    before, checkpoint = plan_of(spec), newest_verified(spec.paths.run)
    assert checkpoint is not None
    assert 3 <= checkpoint.step < 6
    resumed = cured(spec, cure, f"{spec.paths.run}/{checkpoint.name}")
    code, out, err = training(resumed).run()
    assert code == 0, out + err
    # float32 needs more memory than float16, so it has a plan of its own.
    assert (plan_of(resumed) != before) == (expected != "retry")
    trained = training(resumed).sample_ids
    assert len(trained) == 6
    for epoch in (trained[:3], trained[3:]):
        names = [name for step in epoch for name in step]
        assert len(names) == len(set(names)) == SAMPLES


def on_a_small_card(spec: TrainingSpec) -> TrainingSpec:
    """Return the spec for a card whose memory suffices for the fastest plan with 80 % of it, but not with 70 %."""
    large = dataclasses.replace(spec, card="a card", card_bytes=2**40)
    for folder in (spec.paths.run, spec.paths.cache):
        Path(folder).mkdir(parents=True, exist_ok=True)
    plan = plan_step_memory(large, prepare(large), training_arguments(large, device="cpu"))
    assert plan.needed_bytes is not None
    return dataclasses.replace(large, card_bytes=CONTEXT_BYTES + int(plan.needed_bytes / 0.8))


def plan_of(spec: TrainingSpec) -> tuple[int, int]:
    """Return the micro-batch and the number of checkpointed layers that the training used."""
    plan = json.loads((Path(spec.paths.run) / "memory.json").read_text())
    return plan["micro_batch"], plan["checkpointed"]


def cured(spec: TrainingSpec, cure: Cure, checkpoint: str) -> TrainingSpec:
    """Return the spec of the next job, with the overrides of the cure."""
    loop = {key.removeprefix("train."): value for key, value in cure.overrides.items() if key.startswith("train.")}
    precision = spec.precision
    if "precision" in cure.overrides:
        precision = judge_precision(capability=None, requested=cure.overrides["precision"])
    return dataclasses.replace(
        spec,
        precision=precision,
        paths=dataclasses.replace(spec.paths, resume_from=checkpoint),
        train=dataclasses.replace(spec.train, **loop),
    )
