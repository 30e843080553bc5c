"""The precision judge, as a table of cards and requested precisions."""

import pytest

from remote.policy.cards import CARDS, UnknownCard, parse_card
from remote.policy.precision import judge_precision, supports_bf16
from remote.protocol.exits import ExitCode
from remote.protocol.precision import Mode, PrecisionPlan, announce
from remote.protocol.values import decode, encode


@pytest.mark.parametrize(
    ("capability", "requested", "mode"),
    [
        (None, "auto", Mode.FP32),
        ((6, 0), "auto", Mode.FP16_MIXED),
        ((7, 0), "auto", Mode.FP16_MIXED),
        ((7, 5), "auto", Mode.FP16_MIXED),
        ((8, 0), "auto", Mode.BF16),
        ((8, 6), "auto", Mode.BF16),
        ((12, 0), "auto", Mode.BF16),
        ((7, 5), "fp32", Mode.FP32),
        ((7, 5), "fp16-pure", Mode.FP16_PURE),
        ((8, 0), "fp16-mixed", Mode.FP16_MIXED),
        (None, "fp16-mixed", Mode.FP16_MIXED),
        (None, "bf16", Mode.BF16),
    ],
)
def test_card_and_requested_precision_determine_the_mode(capability, requested, mode):
    plan = judge_precision(capability=capability, requested=requested)
    assert plan.mode is mode
    assert plan.ok
    assert plan.because
    assert mode.value in announce(plan)


@pytest.mark.parametrize("capability", [(6, 0), (7, 0), (7, 5)])
def test_bf16_below_8_0_is_refused_and_the_plan_is_the_one_that_works(capability):
    plan = judge_precision(capability=capability, requested="bf16", card="some card")
    assert not plan.ok
    assert plan.refusal.check == "bf16-unsupported"
    assert plan.refusal.exit_code is ExitCode.PRECISION
    assert "some card" in plan.refusal.message
    assert plan.mode is Mode.FP16_MIXED


@pytest.mark.parametrize("capability", [None, (6, 0), (7, 5), (8, 0), (9, 0)])
@pytest.mark.parametrize("requested", ["auto", "bf16", "fp16-mixed", "fp32"])
def test_the_precision_rule_holds_for_every_card_and_requested_precision(capability, requested):
    plan = judge_precision(capability=capability, requested=requested)
    assert plan.trainable_dtype == "float32"
    assert plan.reduce_dtype == "float32"
    assert plan.scaler == (plan.autocast_dtype == "float16")
    if capability is not None and not supports_bf16(capability):
        assert "bfloat16" not in (plan.frozen_dtype, plan.autocast_dtype)


@pytest.mark.parametrize(
    ("capability", "requested", "check"),
    [
        ((7, 5), "fp16-pure", "fp16-pure"),
        ((6, 0), "auto", "no-tensor-cores"),
        ((8, 0), "fp32", "fp32-on-tensor-cores"),
        (None, "fp16-mixed", "precision-on-cpu"),
    ],
)
def test_a_doubtful_precision_is_a_warning_and_not_refused(capability, requested, check):
    plan = judge_precision(capability=capability, requested=requested)
    assert plan.ok
    assert [finding.check for finding in plan.warnings] == [check]


def test_a_plain_case_has_no_warning():
    assert judge_precision(capability=(7, 5)).findings == ()
    assert judge_precision(capability=(8, 0)).findings == ()


def test_a_plan_is_encoded_without_loss():
    plan = judge_precision(capability=(7, 5), requested="bf16", card="TITAN RTX")
    assert decode(PrecisionPlan, encode(plan)) == plan


@pytest.mark.parametrize(
    ("written", "name", "capability"),
    [
        ("titan-rtx", "TITAN RTX", (7, 5)),
        ("TITAN RTX", "TITAN RTX", (7, 5)),
        ("NVIDIA Tesla T4", "Tesla T4", (7, 5)),
        ("nvidia geforce rtx 3090", "GeForce RTX 3090", (8, 6)),
        ("7.5", "a card of capability 7.5", (7, 5)),
        (7.5, "a card of capability 7.5", (7, 5)),
        (8, "a card of capability 8.0", (8, 0)),
        ("sm_75", "a card of capability 7.5", (7, 5)),
        ("sm120", "a card of capability 12.0", (12, 0)),
    ],
)
def test_a_card_can_be_named_or_numbered(written, name, capability):
    assert parse_card(written) == (name, capability)


@pytest.mark.parametrize("written", ["titan-rxt", "banana", "0.5", True, "", "75"])
def test_an_unknown_card_name_is_refused(written):
    with pytest.raises(UnknownCard):
        parse_card(written)


def test_a_misspelt_card_is_an_error_with_similar_names():
    with pytest.raises(UnknownCard, match="titan-rtx"):
        parse_card("titan-rxt")


def test_parse_card_recognises_the_printed_name_of_every_card():
    for slug, (printed, capability) in CARDS.items():
        assert parse_card(slug) == (printed, capability)
