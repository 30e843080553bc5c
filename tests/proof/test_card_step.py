"""The card step: a small LoRA model on the real device, in the plan's precision."""

from __future__ import annotations

import sys

import pytest

from remote.link.local import local_host
from remote.operations.proof import step_card
from remote.payload.proof.card import judge_card
from remote.policy.precision import judge_precision
from remote.protocol.card import CardFacts, CardRequest

TURING = (7, 5)


def ask(tmp_path, requested, capability=TURING):
    host = local_host(str(tmp_path), keep=False)
    plan = judge_precision(capability=capability, requested=requested)
    asked = CardRequest("p", sys.executable, plan, environment={"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""})
    try:
        return step_card(host, asked)
    finally:
        host.close()


def errors(findings):
    return [finding.check for finding in findings if finding.severity.value == "error"]


@pytest.mark.train
def test_mixed_precision_trains_and_the_report_names_the_cpu(tmp_path):
    report = ask(tmp_path, "auto")
    assert errors(report.findings) == []
    assert report.facts.device == "cpu"
    assert "proves nothing about a card" in next(f.message for f in report.findings if f.check == "card-step")
    assert report.facts.losses[-1] < report.facts.losses[0] / 2
    assert report.facts.trained_dtypes == ("float32",)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.train
def test_pure_float16_is_shown_to_fail_where_mixed_precision_trains(tmp_path):
    report = ask(tmp_path, "fp16-pure")
    assert "loss-finite" in errors(report.findings)
    assert report.facts.losses[0] is not None
    assert report.facts.losses[1] is None


GOOD = {
    "device": "TITAN RTX",
    "capability": TURING,
    "losses": (6.0, 2.0),
    "scale": 65536.0,
    "loss_gap": 1e-5,
    "padding_gap": 1e-6,
    "trained_dtypes": ("float32",),
    "state_dtypes": ("float32",),
    "attention": "mem-efficient",
    "resumed_equal": True,
}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"error": "RuntimeError: no kernel image"}, "card-step"),
        ({"losses": (6.0, None)}, "loss-finite"),
        ({"losses": (6.0, 5.9)}, "tiny-overfit"),
        ({"skipped": 2}, "scaler-trajectory"),
        ({"trained_dtypes": ("float16",)}, "trainable-dtype"),
        ({"state_dtypes": ("float16",)}, "trainable-dtype"),
        ({"loss_gap": 0.05}, "loss-agreement"),
        ({"padding_gap": 0.05}, "padding-agreement"),
        ({"resumed_equal": False}, "resume-probe"),
    ],
)
def test_each_check_of_the_card_step_can_fail(change, check):
    plan = judge_precision(capability=TURING)
    assert errors(judge_card(CardFacts(**GOOD), plan)) == []
    assert errors(judge_card(CardFacts(**{**GOOD, **change}), plan)) == [check]


def test_the_math_kernel_is_worth_a_warning_on_a_card():
    plan = judge_precision(capability=TURING)
    findings = list(judge_card(CardFacts(**{**GOOD, "attention": "math"}), plan))
    assert [finding.check for finding in findings if finding.severity.value == "warning"] == ["attention-backend"]
