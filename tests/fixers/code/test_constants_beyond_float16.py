"""A tensor with a constant that float16 cannot hold keeps its dtype."""

from __future__ import annotations

import pytest

from fixers.frame.target import Target
from fixers.plans.file_plan import plan_file
from fixers.registry import source_fixers
from tests.fixers.casebook import TITAN_RTX

TORCH = "import torch\n"

FILL = "bias = (m * 1.0).masked_fill(m, {value}).to(torch.bfloat16)\n"


@pytest.mark.parametrize(
    ("code", "stays"),
    [
        (FILL.format(value="-1e9"), True),
        (FILL.format(value="-65504.0"), False),
        (FILL.format(value="float('-inf')"), False),
        ("bias = torch.full((n, n), -1e9, dtype=torch.bfloat16)\n", True),
        ("bias = torch.full((n, n), -1e4, dtype=torch.bfloat16)\n", False),
        ("table = torch.zeros(100000).to(torch.bfloat16)\n", False),
    ],
)
def test_a_constant_beyond_float16_keeps_its_tensor(code: str, stays: bool) -> None:
    outcome = plan_file("model.py", (TORCH + code).encode(), list(source_fixers()), Target(TITAN_RTX))
    assert (outcome.change is None) is stays
    assert any("beyond 65504" in each.reason for each in outcome.skipped) is stays
