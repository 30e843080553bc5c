"""Assertions of a newer card, and branches that stop the program on this one, are reported and stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixers.code import bf16_probe
from tests.fixers.code.training_code import outcome
from tests.fixers.plans.program_files import ACCELERATE, TRAINER, changed, planned
from tests.fixers.plans.project_plan import warned

ASSERTED = "assert torch.cuda.get_device_capability()[0] >= 8, 'no FlashAttention'\n"
OF_BF16 = "assert torch.cuda.is_bf16_supported(), 'no bfloat16'\n"
NAMED = "major, minor = torch.cuda.get_device_capability()\nassert major >= 8\n"
RAISES = "if not torch.cuda.is_bf16_supported():\n    raise ValueError('no bfloat16')\ndtype = torch.bfloat16\n"
EXITS = "capability = torch.cuda.get_device_capability(0)[0]\nif capability < 8:\n    sys.exit(1)\nname = 'bf16'\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (ASSERTED, [1]),
        (ASSERTED.replace("[0] >= 8", " >= (8, 0)"), [1]),
        (ASSERTED.replace(">= 8", "> 7"), [1]),
        (NAMED, [2]),
        (OF_BF16, [1]),
        (OF_BF16.replace("assert", "assert torch.cuda.is_available() and"), [1]),
        (ASSERTED.replace(">= 8", ">= 7"), []),
        (ASSERTED.replace(">= 8", "< 8"), []),
        (ASSERTED.replace("torch.cuda", "mine"), []),
        (NAMED.replace("assert major", "assert minor"), []),
        (OF_BF16.replace(" torch", " not torch"), []),
        (OF_BF16.replace("()", "(including_emulation=False)"), []),
    ],
)
def test_an_assertion_of_a_newer_card_is_reported(code: str, lines: list[int]) -> None:
    _, findings = outcome(bf16_probe, code)
    assert [line for line, _ in findings] == lines
    assert all("this assertion requires" in message for _, message in findings)


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (RAISES, [1]),
        (EXITS, [2]),
        (EXITS.replace("(0)[0]\nif capability < 8", "()\nif capability < (8, 0)"), [2]),
        (RAISES.replace("raise ValueError", "print"), []),
        (RAISES.replace("dtype = torch.bfloat16", "dtype = None"), []),
        (EXITS.replace("< 8", "< 7"), []),
        (EXITS.replace("< 8", ">= 8"), []),
    ],
)
def test_a_branch_that_stops_the_program_on_this_card_is_reported(code: str, lines: list[int]) -> None:
    _, findings = outcome(bf16_probe, code)
    assert [line for line, message in findings if "stops the program" in message] == lines


@pytest.mark.parametrize("code", [OF_BF16, RAISES])
def test_a_probe_that_stops_the_program_is_not_replaced(code: str) -> None:
    assert outcome(bf16_probe, code)[0] == code
    other = (
        code.replace("assert ", "flag = ")
        .replace("(), 'no bfloat16'", "()")
        .replace("raise ValueError('no bfloat16')", "half = True")
    )
    assert "get_device_capability() >= (8, 0)" in outcome(bf16_probe, other)[0]


def test_a_program_with_an_assertion_is_converted_and_one_that_stops_is_not(tmp_path: Path) -> None:
    asserting = planned(tmp_path, {"train.py": f"import torch\n{ASSERTED}{TRAINER}"})
    assert "fp16=True" in changed(asserting)["train.py"]
    assert "train.py:2 this assertion requires compute capability 8.0" in warned(asserting)
    stopping = planned(tmp_path / "stopping", {"train.py": ACCELERATE, "card.py": f"import torch\n{RAISES}"})
    assert set(changed(stopping)) == {"train.py"}
    imported = planned(
        tmp_path / "imported", {"train.py": f"import card\n{ACCELERATE}", "card.py": f"import torch\n{RAISES}"}
    )
    assert changed(imported) == {}
    assert "this stops the program on a card without bfloat16" in warned(imported)
