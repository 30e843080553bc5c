"""The live watch: progress of any script, anomalies in the step in which they happen, ending a lost training."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.protocol.jobs import Progress
from remote.protocol.values import decode
from tests.proof.declared import declared, planned_steps

SCRIPTS = Path(__file__).parent / "scripts"


def test_progress_of_a_plain_script_is_written(watch, tmp_path):
    findings, status, _ = watch(SCRIPTS / "healthy" / "lora_loop.py", HALFSTEP_STEPS="30")
    assert (findings, status) == ([], 0)
    progress = decode(Progress, json.loads((tmp_path / "progress.json").read_text()))
    assert (progress.step, progress.steps, progress.skipped_steps) == (30, 30, 0)
    assert progress.loss > 0
    assert progress.grad_norm > 0
    assert progress.loss_scale == 1024.0


def test_the_loss_of_a_watched_step_is_the_sum_over_its_micro_steps(watch, tmp_path):
    watch(SCRIPTS / "healthy" / "accumulation.py")
    assert json.loads((tmp_path / "progress.json").read_text())["loss"] > math.log(64) / 2, "a guesser's loss, halved"


def test_skipped_steps_are_counted(watch, tmp_path):
    watch(SCRIPTS / "healthy" / "first_steps_overflow.py")
    progress = json.loads((tmp_path / "progress.json").read_text())
    assert progress["skipped_steps"] >= 1
    assert progress["loss_scale"] < 2.0**24


@pytest.mark.parametrize(
    ("name", "check"),
    [
        ("labels_all_masked", "loss-finite"),
        ("pure_fp16", "loss-finite"),
        ("loss_zero", "loss-zero"),
        ("nan_applied", "gradient-finite"),
        ("loss_constant", "gradient-zero"),
        ("always_overflows", "scaler-trajectory"),
        ("halves_from_a_low_scale", "scaler-trajectory"),
        ("weights_overflow", "gradient-finite"),
        ("reentrant_checkpointing", "adapter-gradient"),
        ("wrong_adapter_active", "adapter-gradient"),
    ],
)
def test_a_lost_training_ends_within_steps_and_its_log_says_why(name, check, watch):
    findings, status, output = watch(SCRIPTS / "faults" / f"{name}.py")
    assert check in [line["check"] for line in findings]
    assert findings[0]["step"] <= 12
    assert status == 1
    assert check in [finding.check for finding in diagnose_text(output)]


def test_the_watch_may_only_report(watch):
    findings, status, _ = watch(SCRIPTS / "faults" / "loss_zero.py", HALFSTEP_WATCH_STOP="0")
    assert "loss-zero" in [line["check"] for line in findings]
    assert status == 0


INTERRUPTED = sorted((SCRIPTS / "interrupted").glob("*.py"))
RESUMING = {"train-mode", "trainable-set", "trainable-dtype", "weights-between", "learning-rate"}
"""What the watch reports of the steps after an evaluation, a checkpoint or a change of the rate."""


@pytest.mark.parametrize("script", INTERRUPTED, ids=lambda path: path.stem)
def test_what_an_evaluation_or_a_checkpoint_leaves_changed_is_reported(script, watch):
    findings, status, output = watch(script, HALFSTEP_STEPS=planned_steps(script))
    assert status == 0, output[-2000:]
    assert [(line["check"], line["severity"]) for line in findings] == [(declared("expects", script)[0][0], "warning")]


@pytest.mark.parametrize("script", sorted((SCRIPTS / "healthy").glob("*.py")), ids=lambda path: path.stem)
def test_a_healthy_training_runs_to_its_end_unharmed(script, watch):
    findings, status, output = watch(script, HALFSTEP_STEPS=planned_steps(script))
    assert [line for line in findings if line["severity"] == "error" or line["check"] in RESUMING] == []
    assert status == 0, output[-2000:]


POISONED = """
import torch
{setup}
model = torch.nn.Linear(4, 1)
optimizer = {optimizer}
try:
    for step in range(5):
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        if step == 3:
            model.weight.grad[0, 0] = float("{gradient}")
        {before}
        optimizer.step()
        optimizer.zero_grad()
finally:
    print("weights are", "finite" if all(p.isfinite().all() for p in model.parameters()) else "ruined")
"""


def poisoned(optimizer="AdamW", gradient="nan", setup="", before=""):
    built = f"torch.optim.{optimizer}(model.parameters(), lr=1e-3)" if optimizer.isidentifier() else optimizer
    return POISONED.format(optimizer=built, gradient=gradient, setup=setup, before=before)


@pytest.mark.parametrize(
    "script",
    [
        poisoned(),
        poisoned("SGD", "inf"),
        poisoned("torch.optim.RMSprop(model.parameters(), lr=0.0)", "inf"),
        poisoned(before="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"),
        poisoned(setup="from accelerate import Accelerator", before="Accelerator(cpu=True)"),
    ],
    ids=["AdamW", "SGD", "at a rate of 0", "clipped", "with Accelerate"],
)
def test_a_step_that_would_ruin_the_weights_is_not_applied(script, watch, tmp_path):
    (tmp_path / "train.py").write_text(script)
    lines, status, output = watch(tmp_path / "train.py")
    assert status == 1
    assert "weights are finite" in output
    assert [(line["check"], line["severity"], line["step"]) for line in lines] == [("gradient-finite", "error", 4)]
    assert "step 4 was not applied" in output
    assert "gradient-finite" in [finding.check for finding in diagnose_text(output)]


GUARDED = """
class Guarded(torch.optim.SGD):
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.nan_to_num_(0.0)
        return super().step(closure)
"""
REPAIR = """
def repair(optimizer, args, kwargs):
    for group in optimizer.param_groups:
        for p in group["params"]:
            p.grad.nan_to_num_(0.0)
"""
REGISTER = """
from torch.optim.optimizer import register_optimizer_step_pre_hook
register_optimizer_step_pre_hook(repair)
"""


@pytest.mark.parametrize(
    "script",
    [
        poisoned("Guarded(model.parameters(), lr=1e-3)", setup=GUARDED),
        poisoned(setup=REPAIR, before="optimizer.register_step_pre_hook(repair)"),
        poisoned(setup=REPAIR + REGISTER),
        poisoned("torch.optim.Rprop(model.parameters())", "inf"),
        poisoned(before="if not all(p.grad.isfinite().all() for p in model.parameters()): continue"),
    ],
    ids=["an optimizer of its own", "a hook of the optimizer", "a hook of all optimizers", "by sign", "skipped"],
)
def test_a_script_that_handles_bad_gradients_itself_is_left_alone(script, watch, tmp_path):
    (tmp_path / "train.py").write_text(script)
    lines, status, output = watch(tmp_path / "train.py")
    assert (status, [line for line in lines if line["severity"] == "error"]) == (0, []), output
    assert "weights are finite" in output


def test_a_watch_that_may_not_stop_a_training_lets_the_step_be_applied(watch, tmp_path):
    (tmp_path / "train.py").write_text(poisoned())
    lines, status, output = watch(tmp_path / "train.py", HALFSTEP_WATCH_STOP="0")
    assert (status, "weights are ruined" in output) == (0, True)
    assert ("gradient-finite", "error") in [(line["check"], line["severity"]) for line in lines]
