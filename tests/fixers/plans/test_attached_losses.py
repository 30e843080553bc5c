"""A program whose autograd functions attach a loss is converted only if the program gives them the loss scale."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixers.plans.program_files import LOOP, changed, planned

PROGRAM = LOOP.replace("import torch\n", "import torch\nfrom experts import Layer\n", 1).replace(
    "torch.nn.Linear(2, 2)", "Layer()"
)
EXPERTS = """import torch
from torch import nn


class Balance(torch.autograd.Function):
    factor = 1.0

    @staticmethod
    def forward(ctx, hidden, loss):
        ctx.save_for_backward(hidden, loss)
        return hidden

    @staticmethod
    def backward(ctx, grad):
{backward}

    @staticmethod
    def set_factor(scale):
        Balance.factor = scale


class Layer(nn.Module):
    def forward(self, hidden):
        return {use}
"""
USED = "Balance.apply(hidden, hidden.mean())"
ONES = """
        _, loss = ctx.saved_tensors
        return grad, torch.ones_like(loss) * Balance.factor
"""
SCATTERED = """
        hidden, _ = ctx.saved_tensors
        largest, at = torch.max(hidden, -1, keepdim=True)
        penalty = torch.zeros_like(hidden)
        penalty.scatter_(-1, at, largest * 1e-4)
        return grad, penalty
"""
OPTIONAL = """
        extra = None
        if ctx.needs_input_grad[1]:
            extra = torch.ones(1, dtype=ctx.dtype, device=grad.device)
        return grad, extra
"""
SCALED = {
    "a product with the incoming gradient": "        return grad, torch.ones_like(grad) * grad.sum()",
    "a kernel that writes to the result": """
        hidden, _ = ctx.saved_tensors
        other = torch.empty_like(hidden)
        kernel[8](grad, other)
        return grad, other
""",
    "zeros": "        nothing = torch.zeros_like(ctx.hidden)\n        return grad, nothing",
    "None": "        return grad * 2, None",
    "a graph that is computed again": """
        hidden, loss = ctx.saved_tensors
        with torch.enable_grad():
            run(hidden, loss).backward(grad)
        return grad, loss.grad
""",
    "the scale itself": "        return grad, torch.ones(1) * SCALER.get_scale()",
}


def files(backward: str, use: str = USED, after: str = "") -> dict[str, str]:
    return {"train.py": PROGRAM + after, "experts.py": EXPERTS.format(backward=backward.strip("\n"), use=use)}


@pytest.mark.parametrize("backward", [ONES, SCATTERED, OPTIONAL], ids=["ones", "scattered", "optional"])
def test_a_program_that_attaches_a_loss_stays_in_bfloat16(tmp_path: Path, backward: str) -> None:
    plan = planned(tmp_path, files(backward))
    assert changed(plan) == {}
    (message,) = [each.message for each in plan.findings if "stays in bfloat16" in each.message]
    assert "experts.py:5 attaches a loss whose gradient no loss scale multiplies" in message


@pytest.mark.parametrize("backward", SCALED.values(), ids=SCALED)
def test_a_function_whose_gradients_are_scaled_does_not_stop_the_conversion(tmp_path: Path, backward: str) -> None:
    assert set(changed(planned(tmp_path, files(backward)))) == {"train.py"}


@pytest.mark.parametrize(
    "after",
    ["experts.Balance.set_factor(loss_scale / steps)\n", "Balance.factor = scaler.get_scale()\n"],
)
def test_a_program_that_sets_the_scale_of_the_attached_loss_is_converted(tmp_path: Path, after: str) -> None:
    assert set(changed(planned(tmp_path, files(ONES, after=after)))) == {"train.py"}


def test_a_factor_without_the_loss_scale_does_not_count(tmp_path: Path) -> None:
    assert changed(planned(tmp_path, files(ONES, after="Balance.set_factor(1 / steps)\n"))) == {}


def test_a_function_that_nothing_applies_does_not_count(tmp_path: Path) -> None:
    assert set(changed(planned(tmp_path, files(ONES, use="hidden")))) == {"train.py"}
