"""The LoRA layers of the trainer compute what those of PEFT compute, with fewer and smaller tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft.tuners.lora import Linear

from remote.payload.training.base_model import cast_trainable, load_model, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.memory import LiveBytes
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
both = pytest.mark.parametrize("model", [PHI4, QWEN2])
PLAN = judge_precision(capability=None)
TURING = judge_precision(capability=(7, 5))


def adapted(one: Any, plan: Any, dropout: float) -> Any:
    torch.manual_seed(0)
    adapter = load_model(one.base, plan, FRESH, LoraSpec(r=4, alpha=8, dropout=dropout), "cpu")
    cast_trainable(adapter, plan)
    with torch.no_grad():
        for _, parameter in trainable_parameters(adapter):
            parameter.normal_(std=0.02)
    return adapter.train()


def as_in_peft(adapter: Any) -> Any:
    for module in adapter.modules():
        if isinstance(module, Linear):
            del module.forward
    return adapter


def losses_and_gradients(adapter: Any, batch: dict[str, Any], plan: Any) -> tuple[float, dict[str, torch.Tensor]]:
    torch.manual_seed(1)
    dtype = getattr(torch, plan.autocast_dtype or "float32")
    with torch.autocast("cpu", dtype=dtype, enabled=plan.autocast_dtype is not None):
        loss = adapter(**batch).loss
    loss.backward()
    return float(loss.detach()), {name: parameter.grad for name, parameter in trainable_parameters(adapter)}


@both
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_loss_and_gradients_equal_those_of_peft(model: str, dropout: float, made: Callable[[str], Any]) -> None:
    one = made(model)
    batch = one.collator([one.samples[i] for i in (0, 1)])
    del batch[SAMPLES]
    ours, gradients = losses_and_gradients(adapted(one, PLAN, dropout), batch, PLAN)
    theirs, wanted = losses_and_gradients(as_in_peft(adapted(one, PLAN, dropout)), batch, PLAN)
    assert ours == pytest.approx(theirs, abs=1e-6)
    for name, gradient in wanted.items():
        assert torch.allclose(gradients[name], gradient, rtol=1e-4, atol=1e-6), name


def test_the_loss_under_float16_autocast_equals_that_of_peft(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    batch = one.collator([one.samples[i] for i in (0, 1)])
    del batch[SAMPLES]
    ours, _ = losses_and_gradients(adapted(one, TURING, 0.0), batch, TURING)
    theirs, _ = losses_and_gradients(as_in_peft(adapted(one, TURING, 0.0)), batch, TURING)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_a_half_input_is_not_copied_to_float32(made: Callable[[str], Any]) -> None:
    layer = next(module for module in adapted(made(PHI4), TURING, 0.0).modules() if isinstance(module, Linear))
    seen: list[torch.dtype] = []
    layer.lora_A["default"].register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].dtype))
    x = torch.randn(2, 3, layer.in_features, dtype=torch.float16)
    with torch.autocast("cpu", dtype=torch.float16):
        assert layer(x).dtype == torch.float16
    assert layer(x).dtype == torch.float16
    assert seen == [torch.float16, torch.float32], "without autocast, float32 weights need a float32 input"


@pytest.mark.parametrize("plan", [PLAN, TURING])
def test_the_output_of_a_layer_is_allocated_once(plan: Any, made: Callable[[str], Any]) -> None:
    layer = next(module for module in adapted(made(PHI4), plan, 0.0).modules() if isinstance(module, Linear))
    x = torch.randn(2, 300, layer.in_features, requires_grad=True).to(getattr(torch, plan.frozen_dtype))
    dtype = getattr(torch, plan.autocast_dtype or "float32")
    live = LiveBytes()
    for tensor in (x, *layer.parameters()):
        live.add(tensor)
    before = live.now
    with torch.autocast("cpu", dtype=dtype, enabled=plan.autocast_dtype is not None), live:
        out = layer(x)
    assert out.shape == (2, 300, layer.out_features)
    assert live.peak - before < 1.5 * out.nbytes


def test_disabled_and_merged_adapters_are_left_to_peft(made: Callable[[str], Any]) -> None:
    adapter = adapted(made(PHI4), PLAN, 0.0)
    layer = next(module for module in adapter.modules() if isinstance(module, Linear))
    x = torch.randn(2, layer.in_features)
    with_adapter, base = layer(x), layer.base_layer(x)
    assert not torch.allclose(with_adapter, base, atol=1e-4)
    with adapter.disable_adapter():
        assert torch.equal(layer(x), base)
    layer.merge()
    assert torch.allclose(layer(x), with_adapter, atol=1e-5)
