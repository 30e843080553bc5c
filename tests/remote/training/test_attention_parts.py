"""Masked attention in parts equals attention as a whole, with about half of the pairs of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.overrides import TorchFunctionMode
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from remote.payload.training.attention_parts import PART, attend_in_parts
from remote.payload.training.base_model import load_model
from remote.payload.training.families.registry import TINY
from remote.payload.training.memory import LiveBytes
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec


class Pairs(TorchFunctionMode):
    """Records the numbers of queries and keys of each attention call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[int, int]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is scaled_dot_product_attention:
            self.calls.append((args[0].shape[2], args[1].shape[2]))
        return func(*args, **(kwargs or {}))


def attention_module(groups: int) -> Any:
    module = torch.nn.Module()
    module.num_key_value_groups = groups
    return module.train()


def causal_mask(length: int) -> torch.Tensor:
    """Return a mask in which, besides all later tokens, a third of the earlier ones is excluded."""
    draw = torch.Generator().manual_seed(length)
    visible = (torch.rand(length, length, generator=draw) > 0.33).logical_or(torch.eye(length, dtype=torch.bool)).tril()
    return torch.zeros(1, 1, length, length).masked_fill(~visible, float("-inf"))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("length", [PART + 1, 2 * PART, 2 * PART + 40])
def test_output_and_gradients_are_those_of_the_whole(length: int, groups: int) -> None:
    torch.manual_seed(0)
    inputs = [torch.randn(2, heads, length, 8, requires_grad=True) for heads in (4, 4 // groups, 4 // groups)]
    mask, module = causal_mask(length), attention_module(groups)
    results = []
    for attend in (attend_in_parts, sdpa_attention_forward):
        out, weights = attend(module, *inputs, mask, scaling=0.2)
        assert weights is None
        results.append((out, *torch.autograd.grad(out.square().sum(), inputs)))
    for got, wanted in zip(*results, strict=True):
        assert torch.allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_the_value_keeps_no_tensor_that_it_is_a_part_of() -> None:
    made, live = torch.randn(2, 50, 8 * 16, requires_grad=True), LiveBytes()
    with live:
        together = made * 1
        query, value = (together[..., at : at + 32].view(2, 50, 4, 8).transpose(1, 2) for at in (0, 96))
        rotated = query * 2
        del query
        out, _ = attend_in_parts(attention_module(1), rotated, rotated, value, None)
        del together, rotated, value
        kept = live.now
    # Query, value and output, each a quarter of what they are made from, and the sums of the softmax.
    assert kept < 1.05 * made.nbytes
    out.sum().backward()
    assert made.grad is not None


@pytest.mark.parametrize(
    ("length", "masked", "training", "calls"),
    [
        (PART, True, True, [(PART, PART)]),
        (2 * PART + 9, False, True, [(2 * PART + 9, 2 * PART + 9)]),
        (2 * PART + 9, True, False, [(2 * PART + 9, 2 * PART + 9)]),
        (2 * PART + 9, True, True, [(PART, PART), (PART, 2 * PART), (9, 2 * PART + 9)]),
    ],
)
def test_only_long_rows_of_a_training_with_a_mask_are_split(
    length: int, masked: bool, training: bool, calls: list[tuple[int, int]]
) -> None:
    one = torch.zeros(1, 2, length, 8)
    with Pairs() as pairs:
        attend_in_parts(attention_module(1).train(training), one, one, one, causal_mask(length) if masked else None)
    assert pairs.calls == calls


@pytest.mark.parametrize("model", sorted(TINY))
def test_every_decoder_layer_trains_in_parts_with_the_loss_of_the_whole(model: str, made: Callable[[str], Any]) -> None:
    base = made(model).base
    adapter = load_model(base, judge_precision(capability=None), FRESH, LoraSpec(r=4, dropout=0.0), "cpu").train()
    length = PART + 50
    ids = torch.randint(10, 200, (1, length), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(1, 1, length, length, dtype=torch.bool).tril()
    layers = len(adapter.get_base_model().get_decoder().layers)
    with Pairs() as pairs:
        masked = adapter(input_ids=ids, attention_mask=mask, labels=ids).loss
    assert pairs.calls == [(PART, PART), (50, length)] * layers
    assert float(masked) == pytest.approx(float(adapter(input_ids=ids, labels=ids).loss), rel=1e-6)
