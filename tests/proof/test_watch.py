"""The live watch: progress of any script, anomalies told in the step they happen, a lost training ended."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pipeline.diagnosis.diagnose import diagnose_text
from remote.payload.proof.hooks.anomalies import CREEP_WINDOW, Step, Vigil
from remote.protocol.jobs import Progress
from remote.protocol.values import decode

SCRIPTS = Path(__file__).parent / "scripts"


def step(number, *, losses=(1.0,), norm=1.0, scale=1024.0, skipped=False, held=0, spoiled=False):
    return Step(number, losses, None if skipped else norm, scale, skipped, 1e-3, held, spoiled)


def reported(steps, **vigil):
    """What a vigil reports of these steps: check, severity, step."""
    judge = Vigil(**vigil)
    return [(one.check, one.severity, one.step) for each in steps for one in judge.look(each)]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (step(3, losses=(1.0, float("nan"))), [("loss-finite", "warning")]),
        (step(3, losses=(1.0, float("nan")), spoiled=True), [("loss-finite", "error"), ("gradient-finite", "error")]),
        (step(3, losses=(float("inf"),), skipped=True), [("loss-finite", "warning")]),
        (step(3, norm=float("nan")), [("gradient-finite", "warning")]),
        (step(3, norm=float("nan"), spoiled=True), [("gradient-finite", "error")]),
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
    told = reported(step(number, **bad) for number in range(1, 30))
    assert (check, "error", steps) == next(one for one in told if one[1] == "error")


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
    settled = [*falling[:12], *(step(number, scale=falling[12].scale) for number in range(13, 40))]
    assert [one for one in reported(settled) if one[1] == "error"] == []


def test_a_scale_that_collapses_late_is_an_error_once_no_step_is_applied_any_more():
    steps = [step(1, scale=16.0)] + [step(at + 2, scale=16.0 / 2**at, skipped=True) for at in range(12)]
    assert ("scale-collapse", "error") in {one[:2] for one in reported(steps)}
    assert reported([step(number, scale=max(0.5, 16.0 / 2**number)) for number in range(1, 9)]) == [
        ("scale-collapse", "warning", 5)
    ]


def test_steps_skipped_over_budget_are_told():
    vigil = Vigil()
    told = []
    for number in range(1, 31):
        told += vigil.look(step(number, skipped=number % 2 == 0))
    assert [one.check for one in told] == ["skipped-steps"]
    assert told[0].step == 22


def test_a_training_whose_every_step_overflows_is_an_error():
    vigil = Vigil()
    told = [one for number in range(1, 10) for one in vigil.look(step(number, skipped=True))]
    assert [(one.check, one.step) for one in told] == [("scaler-trajectory", 8)]


def test_the_first_overflows_of_a_scaler_are_nothing():
    vigil = Vigil()
    assert [one for number in range(1, 20) for one in vigil.look(step(number, skipped=number < 5))] == []


def test_a_set_learnt_by_heart_may_end_without_loss_and_gradient():
    learnt = [step(number, losses=(0.0,), norm=0.0) for number in range(60, 160)]
    assert reported([*(step(number) for number in range(1, 60)), *learnt]) == [("loss-zero", "warning", 64)]
    assert reported(learnt, trained_before=True) == [("loss-zero", "warning", 64)]
    assert [one[1] for one in reported(learnt)] == ["warning", "error"]


def test_memory_that_creeps_is_told_and_memory_that_stays_is_not():
    def held(number):
        return 2**30 + max(0, number - 2 * CREEP_WINDOW) * 2**24

    vigil, calm = Vigil(), Vigil()
    told = [one for number in range(1, 120) for one in vigil.look(step(number, held=held(number)))]
    assert [one.check for one in told] == ["memory-creep"]
    assert [one for number in range(1, 120) for one in calm.look(step(number, held=2**30))] == []


def test_progress_of_a_plain_script_is_written(watch, tmp_path):
    told, status, _ = watch(SCRIPTS / "healthy" / "lora_loop.py", HALFSTEP_STEPS="30")
    assert (told, status) == ([], 0)
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
    told, status, output = watch(SCRIPTS / "faults" / f"{name}.py")
    assert check in [line["check"] for line in told]
    assert told[0]["step"] <= 12
    assert status == 1
    assert check in [finding.check for finding in diagnose_text(output)]


def test_the_watch_may_be_told_to_look_only(watch):
    told, status, _ = watch(SCRIPTS / "faults" / "loss_zero.py", HALFSTEP_WATCH_STOP="0")
    assert "loss-zero" in [line["check"] for line in told]
    assert status == 0


@pytest.mark.parametrize("script", sorted((SCRIPTS / "healthy").glob("*.py")), ids=lambda path: path.stem)
def test_a_healthy_training_runs_to_its_end_unharmed(script, watch):
    told, status, output = watch(script)
    assert [line for line in told if line["severity"] == "error"] == []
    assert status == 0, output[-2000:]
