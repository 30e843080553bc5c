"""The rules of the live watch over a table of steps."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from remote.payload.proof.hooks.monitor import CREEP_WINDOW, StepMonitor
from remote.payload.proof.hooks.step import Step

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
def test_one_bad_step_is_an_error_only_if_weights_are_ruined_and_is_reported_once(bad, expected):
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
def test_a_training_in_which_every_step_is_bad_is_lost(bad, check, steps):
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
def test_values_that_are_normal_in_healthy_trainings_are_not_reported(well):
    assert reported(step(number, **well) for number in range(1, 60)) == []


@pytest.mark.parametrize("first", [65536.0, 2.0**40])
def test_a_falling_scale_gets_more_steps_unless_it_fell_below_1(first):
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
