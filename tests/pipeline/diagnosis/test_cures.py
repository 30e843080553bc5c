"""Which cures may be tried after a failure: none twice, and at most two."""

from __future__ import annotations

import pytest

from pipeline.diagnosis.catalog import load_catalog
from pipeline.diagnosis.cures import Cure, next_cure
from pipeline.diagnosis.diagnose import diagnose_text
from remote.protocol.findings import Finding, Severity

OOM = diagnose_text("torch.OutOfMemoryError: CUDA out of memory.")
BUILT_IN = {"command": None, "train": {"micro_batch": "auto", "gradient_checkpointing": "auto"}, "env": {}}
SET = {"command": None, "train": {"micro_batch": 8, "gradient_checkpointing": True}, "env": {}}


def test_a_planned_training_is_planned_for_less_memory_and_a_set_micro_batch_is_halved():
    assert next_cure([], OOM, BUILT_IN).overrides == {"train.memory_share": 0.7}
    assert next_cure([], OOM, SET).overrides == {"train.micro_batch": 4}
    planned = {**BUILT_IN, "train": {"memory_share": 0.5}}
    assert next_cure([], OOM, planned).name == "config:expandable-segments"


def test_the_second_cure_differs_from_the_first_and_there_is_no_third():
    first = next_cure([], OOM, BUILT_IN)
    second = next_cure([first.name], OOM, BUILT_IN)
    assert second.name == "config:expandable-segments"
    assert next_cure([first.name, second.name], OOM, BUILT_IN) is None


@pytest.mark.parametrize("size", [1, 3])
def test_a_batch_that_cannot_be_halved_is_left_alone(size):
    config = {**SET, "train": {"micro_batch": size, "gradient_checkpointing": True}}
    assert next_cure([], OOM, config).name == "config:expandable-segments"


def test_the_batch_size_of_a_custom_command_is_not_changed():
    cure = next_cure([], OOM, {**BUILT_IN, "command": ["python", "train.py"]})
    assert cure.name == "config:expandable-segments"


def test_a_fixer_that_is_set_to_never_is_no_cure():
    findings = diagnose_text("ValueError: Attempting to unscale FP16 gradients.")
    assert next_cure([], findings, {}) == Cure(
        "fixer:trainable-fp32", "running the fixer trainable-fp32", fixer="trainable-fp32"
    )
    assert next_cure([], findings, {"fixers": {"trainable-fp32": "never"}}) is None
    assert next_cure([], findings, {"fixers": {"trainable-fp32": "off"}}) is not None


def test_a_fixer_that_was_tried_is_skipped_for_the_next_cure():
    findings = diagnose_text(
        "DistNetworkError: port: 29500, code: -98, name: EADDRINUSE, message: address already in use"
    )
    assert next_cure([], findings, {}).name == "fixer:port"
    assert next_cure([], findings, {}, spent=["port"]).name == "config:free-port"


def test_a_precision_that_does_not_train_is_replaced_but_auto_is_kept():
    findings = diagnose_text("halfstep stopped this training: gradient-finite: the gradient norm is nan")
    assert next_cure([], findings, {"precision": "fp16-pure"}).overrides == {"precision": "auto"}
    assert next_cure([], findings, {"precision": "auto"}) is None


def test_a_failure_without_a_cure_or_unrecognised_is_not_cured():
    assert next_cure([], diagnose_text("RuntimeError: CUDA error: device-side assert triggered"), {}) is None
    assert next_cure([], (), {}) is None


@pytest.mark.parametrize(
    ("check", "cure"),
    [
        ("trainable-dtype", "fixer:trainable-fp32"),
        ("bf16-left", "fixer:bf16-to-fp16"),
        ("peak-memory", "config:plan-less-memory"),
    ],
)
def test_findings_of_the_proof_are_cured_before_the_training(check, cure):
    failed = Finding("command-failed", Severity.ERROR, "the training command failed")
    assert next_cure([], (failed, Finding(check, Severity.ERROR, "")), BUILT_IN).name == cure


def test_a_failure_without_a_cure_is_not_cured_by_the_cure_of_a_later_failure():
    findings = diagnose_text("CUDA error: device-side assert triggered\ntorch.OutOfMemoryError: CUDA out of memory.")
    assert next_cure([], findings, BUILT_IN) is None


def test_no_cure_changes_the_data_or_the_amount_of_training():
    for entry in load_catalog():
        findings = diagnose_text(f"{entry.samples[0]}\n" * entry.repeats)
        history: list[str] = []
        while cure := next_cure(history, findings, {**BUILT_IN, "precision": "fp16-pure"}):
            history.append(cure.name)
            assert not any(key.startswith(("data.", "lora.", "model.")) for key in cure.overrides)
            allowed = {"train.micro_batch", "train.memory_share"}
            assert {key for key in cure.overrides if key.startswith("train.")} <= allowed
        assert len(history) == len(set(history)) <= 2
