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


def step(number, *, losses=(1.0,), norm=1.0, scale=1024.0, skipped=False, held=0):
    return Step(number, losses, None if skipped else norm, scale, skipped, 1e-3, held)


@pytest.mark.parametrize(
    ("bad", "check", "severity"),
    [
        (step(3, losses=(1.0, float("nan"))), "loss-finite", "error"),
        (step(3, losses=(float("inf"),)), "loss-finite", "error"),
        (step(3, losses=(0.0, 0.0)), "loss-zero", "error"),
        (step(3, norm=float("nan")), "gradient-finite", "error"),
        (step(3, norm=0.0), "gradient-zero", "error"),
        (step(3, scale=0.5), "scale-collapse", "error"),
    ],
)
def test_a_bad_step_is_told_at_once_and_only_once(bad, check, severity):
    vigil = Vigil()
    for number in (1, 2):
        assert vigil.look(step(number)) == []
    assert [(one.check, one.severity, one.step) for one in vigil.look(bad)] == [(check, severity, 3)]
    assert check not in [one.check for one in vigil.look(bad)]


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


def test_a_set_learnt_by_heart_may_end_at_zero_for_a_step_but_not_for_five():
    vigil = Vigil()
    for number in range(1, 60):
        assert vigil.look(step(number)) == []
    told = [vigil.look(step(number, losses=(0.0,))) for number in range(60, 65)]
    assert [len(row) for row in told] == [0, 0, 0, 0, 1]


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
        ("reentrant_checkpointing", "adapter-gradient"),
        ("wrong_adapter_active", "adapter-gradient"),
    ],
)
def test_a_lost_training_ends_within_steps_and_its_log_says_why(name, check, watch):
    told, status, output = watch(SCRIPTS / "faults" / f"{name}.py")
    assert check in [line["check"] for line in told]
    assert told[0]["step"] <= 8
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
