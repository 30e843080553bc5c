"""Versions of flash-attn that a card cannot run, as tables."""

import pytest

from fixers.frame.change import Plan
from fixers.setup import flash_attention
from fixers.setup.flash_attention import judge_flash
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Interpreter
from tests.fixers.setup_rig import card, site_at, survey_of


def warning(message, hint):
    return Finding("flash-attention", Severity.WARNING, message, "interpreter", hint)


TWO = warning(
    "flash-attn 2.8.3 needs compute capability 8.0; TITAN RTX has 7.5",
    "pip uninstall flash-attn, or select sdpa by name",
)
TWO_AS_MODULE = warning(
    "flash_attn 2.8.3 needs compute capability 8.0; TITAN RTX has 7.0",
    "pip uninstall flash-attn, or select sdpa by name",
)
THREE = warning(
    "flash-attn-3 3.0 needs compute capability 9.0; TITAN RTX has 8.9",
    "pip uninstall flash-attn-3, or select sdpa by name",
)


@pytest.mark.parametrize(
    ("packages", "capability", "findings"),
    [
        ({"flash-attn": "2.8.3"}, (7, 5), (TWO,)),
        ({"flash_attn": "2.8.3"}, (7, 0), (TWO_AS_MODULE,)),
        ({"flash-attn": "2.8.3"}, (8, 0), ()),
        ({"flash-attn": "2.8.3"}, (8, 6), ()),
        ({"flash-attn-3": "3.0"}, (8, 9), (THREE,)),
        ({"flash-attn-3": "3.0"}, (9, 0), ()),
        ({"flash_attn_3": "3.0"}, (10, 0), ()),
        ({"torch": "2.13"}, (7, 5), ()),
        ({}, (7, 5), ()),
    ],
)
def test_flash_attention_is_reported_if_the_card_cannot_run_it(packages, capability, findings):
    assert judge_flash(packages, card(capability=capability)) == findings


def test_both_flash_attentions_are_reported_on_a_card_that_runs_neither():
    findings = judge_flash({"flash-attn": "2.8.3", "flash_attn_3": "3.0"}, card())
    assert [finding.message.split()[0] for finding in findings] == ["flash-attn", "flash_attn_3"]


def test_without_a_survey_or_a_known_card_there_is_no_finding():
    survey = survey_of(interpreter=Interpreter("python", packages={"flash-attn": "2.8.3"}))
    assert flash_attention.plan(site_at(None, survey=survey, gpu=card())) == Plan((TWO,))
    assert flash_attention.plan(site_at(None, survey=survey)) == Plan()
    assert flash_attention.plan(site_at(None, survey=None, gpu=card())) == Plan()
