"""The live watch: progress of any script, anomalies in the step in which they happen, ending a lost training."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.payload.proof.hooks.monitor import CREEP_WINDOW, StepMonitor
from remote.payload.proof.hooks.step import Step
from remote.protocol.jobs import Progress
from remote.protocol.values import decode
from tests.proof.declared import declared, planned_steps

SCRIPTS = Path(__file__).parent / "scripts"


def step(number, *, losses=(1.0,), norm=1.0, scale=1024.0, skipped=False, held=0, ruined=False):
    return Step(
        number,
        not skipped,
        losses,
        grad_norm=norm,
        applied_norm=None if skipped else norm,
        loss_scale=scale,
        learning_rate=1e-3,
        held_bytes=held,
        nonfinite_weights=ruined,
    )


def reported(steps, **settings):
    """Return the anomalies of these steps: check, severity, step."""
    monitor = StepMonitor(**settings)
    return [(one.check, one.severity, one.step) for each in steps for one in monitor.observe(each)]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (step(3, losses=(1.0, float("nan"))), [("loss-finite", "warning")]),
        (step(3, losses=(1.0, float("nan")), ruined=True), [("loss-finite", "error"), ("gradient-finite", "error")]),
        (step(3, losses=(float("inf"),), skipped=True), [("loss-finite", "warning")]),
        (step(3, norm=float("nan")), [("gradient-finite", "warning")]),
        (step(3, norm=float("nan"), ruined=True), [("gradient-finite", "error")]),
        (step(3, scale=0.5), [("scale-collapse", "warning")]),
        (step(3, losses=(0.0, 0.0)), []),
        (step(3, losses=(0.0,), norm=0.0), []),
        (step(3, norm=0.0), []),
    ],
)
def test_one_bad_step_is_an_error_only_where_weights_are_ruined_and_is_reported_once(bad, expected):
    steps = [step(1), step(2), bad, bad]
    assert reported(steps) == [(check, severity, 3) for check, severity in expected]


@pytest.mark.parametrize(
    ("bad", "check", "steps"),
    [
        ({"losses": (0.0,), "norm": 0.0}, "loss-zero", 20),
        ({"losses": (2.5,), "norm": 0.0}, "gradient-zero", 20),
        ({"losses": (float("nan"),), "skipped": True}, "loss-finite", 8),
        ({"losses": (float("nan"),), "norm": 0.0}, "loss-finite", 8),
        ({"skipped": True}, "scaler-trajectory", 8),
    ],
)
def test_a_training_of_nothing_but_such_steps_is_lost(bad, check, steps):
    findings = reported(step(number, **bad) for number in range(1, 30))
    assert (check, "error", steps) == next(one for one in findings if one[1] == "error")


@pytest.mark.parametrize(
    "well",
    [
        {"losses": (0.0,), "norm": 0.5},
        {"losses": (0.693147,), "norm": 0.5},
        {"losses": (-17.0, 3.0)},
        {"losses": (0.0,), "norm": None},
        {"scale": 16.0},
        {"scale": 0.25},
    ],
)
def test_what_healthy_trainings_show_in_every_step_is_not_reported(well):
    assert reported(step(number, **well) for number in range(1, 60)) == []


@pytest.mark.parametrize("first", [65536.0, 2.0**40])
def test_a_scale_that_still_falls_is_given_time_and_one_that_fell_below_1_is_not(first):
    falling = [step(at + 1, scale=first / 2**at, skipped=True) for at in range(60)]
    errors = [one for one in reported(falling) if one[1] == "error"]
    assert errors == [("scaler-trajectory", "error", 2 + int(math.log2(first)))]
    settled = [*falling[:12], *(step(number, scale=falling[12].loss_scale) for number in range(13, 40))]
    assert [one for one in reported(settled) if one[1] == "error"] == []


def test_a_scale_that_collapses_late_is_an_error_once_no_step_is_applied_any_more():
    steps = [step(1, scale=16.0)] + [step(at + 2, scale=16.0 / 2**at, skipped=True) for at in range(12)]
    assert ("scale-collapse", "error") in {one[:2] for one in reported(steps)}
    assert reported([step(number, scale=max(0.5, 16.0 / 2**number)) for number in range(1, 9)]) == [
        ("scale-collapse", "warning", 5)
    ]


def test_steps_skipped_over_budget_are_reported():
    monitor = StepMonitor()
    findings = []
    for number in range(1, 31):
        findings += monitor.observe(step(number, skipped=number % 2 == 0))
    assert [one.check for one in findings] == ["skipped-steps"]
    assert findings[0].step == 22


def test_a_training_whose_every_step_overflows_is_an_error():
    monitor = StepMonitor()
    findings = [one for number in range(1, 10) for one in monitor.observe(step(number, skipped=True))]
    assert [(one.check, one.step) for one in findings] == [("scaler-trajectory", 8)]


def test_the_first_overflows_of_a_scaler_are_no_finding():
    monitor = StepMonitor()
    assert [one for number in range(1, 20) for one in monitor.observe(step(number, skipped=number < 5))] == []


def test_a_memorised_data_set_may_end_without_loss_and_gradient():
    learnt = [step(number, losses=(0.0,), norm=0.0) for number in range(60, 160)]
    assert reported([*(step(number) for number in range(1, 60)), *learnt]) == [("loss-zero", "warning", 64)]
    assert reported(learnt, trained_before=True) == [("loss-zero", "warning", 64)]
    assert [one[1] for one in reported(learnt)] == ["warning", "error"]


def test_memory_that_grows_is_reported_and_constant_memory_is_not():
    def held(number):
        return 2**30 + max(0, number - 2 * CREEP_WINDOW) * 2**24

    monitor, calm = StepMonitor(), StepMonitor()
    findings = [one for number in range(1, 120) for one in monitor.observe(step(number, held=held(number)))]
    assert [one.check for one in findings] == ["memory-creep"]
    assert [one for number in range(1, 120) for one in calm.observe(step(number, held=2**30))] == []


def test_progress_of_a_plain_script_is_written(watch, tmp_path):
    findings, status, _ = watch(SCRIPTS / "healthy" / "lora_loop.py", HALFSTEP_STEPS="30")
    assert (findings, status) == ([], 0)
    progress = decode(Progress, json.loads((tmp_path / "progress.json").read_text()))
    assert (progress.step, progress.steps, progress.skipped_steps) == (30, 30, 0)
    assert progress.loss > 0
    assert progress.grad_norm > 0
    assert progress.loss_scale == 1024.0


def test_the_loss_of_a_step_is_what_all_its_micro_steps_descend(watch, tmp_path):
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
