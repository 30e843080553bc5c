"""How often a training step waits for the device, which then has nothing to do until the host has caught up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from remote.payload.training.base_model import cast_trainable, load_model
from remote.payload.training.collator import SAMPLES
from remote.payload.training.families.registry import TINY
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

ATEN = torch.ops.aten
READS = {
    ATEN._local_scalar_dense.default,
    ATEN.nonzero.default,
    ATEN.masked_select.default,
    ATEN.equal.default,
    ATEN.repeat_interleave.Tensor,
    ATEN._unique2.default,
}
"""Operations whose result, or its size, the host must know; indexing with a boolean tensor is another."""
COPIES = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu)
PLAN = judge_precision(capability=None)
IN_FORWARD = {
    "tiny/audio-flamingo-3": 4,
    "tiny/granite-speech": 4,
    "tiny/phi4-multimodal": 5,
    "tiny/qwen2-audio": 4,
    "tiny/qwen2.5-omni": 15,
    "tiny/voxtral": 2,
}
"""Waits of a forward pass: nearly all in transformers, which merges audio into text and looks for packed sequences."""


class Waits(TorchDispatchMode):
    """Counts reads of values that depend on the weights or on the batch, which are on the card in a real training."""

    def __init__(self, device: list[torch.Tensor]) -> None:
        super().__init__()
        self.on_device = {id(tensor): tensor for tensor in device}
        self.found: list[str] = []

    def holds(self, values: Any) -> bool:
        return any(id(value) in self.on_device for value in tree_leaves(values))

    def __torch_dispatch__(self, function: Any, types: Any, inputs: Any = (), named: Any = None) -> Any:
        named = named or {}
        if not self.holds((inputs, named)):
            return function(*inputs, **named)
        if function in READS or (function is ATEN.index.Tensor and selects(inputs[1])):
            self.found.append(str(function))
        made = function(*inputs, **named)
        self.on_device.update((id(one), one) for one in tree_leaves(made) if isinstance(one, torch.Tensor))
        return made


class Copies(TorchFunctionMode):
    """Counts copies to the host, which are no operations on a CPU."""

    def __init__(self, waits: Waits) -> None:
        self.waits = waits

    def __torch_function__(self, function: Any, types: Any, inputs: Any = (), named: Any = None) -> Any:
        if function in COPIES and self.waits.holds(inputs):
            self.waits.found.append(function.__name__)
        return function(*inputs, **(named or {}))


def selects(indices: Any) -> bool:
    return any(index is not None and index.dtype is torch.bool for index in indices)


def waits_of(one: Any, adapter: Any, places: tuple[int, ...]) -> tuple[list[str], list[str]]:
    """Return the waits of the forward and of the backward pass of a micro-batch of these samples."""
    made: Mapping[str, Any] = one.collator([one.samples[i] for i in places])
    batch = {name: value for name, value in made.items() if name != SAMPLES}
    with Waits([*adapter.parameters(), *adapter.buffers(), *batch.values()]) as waits, Copies(waits):
        loss = adapter(**batch, num_items_in_batch=8).loss
        forward = list(waits.found)
        loss.backward()
    return forward, waits.found[len(forward) :]


@pytest.mark.parametrize("places", [(0, 2), (0, 2, 4, 6)])
@pytest.mark.parametrize("model", sorted(TINY))
def test_no_backward_pass_waits_and_the_waits_of_a_forward_pass_do_not_grow_with_its_clips(
    model: str, places: tuple[int, ...], made: Callable[[str], Any]
) -> None:
    one = made(model)
    adapter = load_model(one.base, PLAN, FRESH, LoraSpec(r=4, alpha=8), "cpu")
    cast_trainable(adapter, PLAN)
    forward, backward = waits_of(one, adapter.train(), places)
    assert backward == []
    assert len(forward) <= IN_FORWARD[model], forward


def test_each_kind_of_wait_is_counted() -> None:
    weights = torch.tensor([1.0, 2.0])
    with Waits([weights]) as waits, Copies(waits):
        doubled = 2 * weights
        doubled[doubled > 3].sum()
        (float(doubled[0]), doubled.nonzero(), doubled.tolist())
        assert torch.ones(2).nonzero().tolist() == [[0], [1]], "values of the host are no reason to wait"
    assert waits.found == ["aten.index.Tensor", "aten._local_scalar_dense.default", "aten.nonzero.default", "tolist"]
