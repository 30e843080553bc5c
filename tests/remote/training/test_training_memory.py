"""The memory of a training step is known before weights are loaded, and its division fits the device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import Phi4MultimodalConfig

from remote.payload.training.base_model import (
    BaseModel,
    cast_trainable,
    checkpoint_layers,
    load_model,
    trainable_parameters,
)
from remote.payload.training.collator import SAMPLES
from remote.payload.training.device import CONTEXT_BYTES, available_main_memory, find_device
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.registry import TINY, find_model
from remote.payload.training.memory import Estimator, LiveBytes, Shape
from remote.payload.training.memory_plan import Device, check_memory, plan_memory, plan_without_estimate
from remote.policy.cards import memory_of
from remote.policy.precision import judge_precision
from remote.protocol.exits import ExitCode
from remote.protocol.training import FRESH, LoopSpec, LoraSpec, MemoryPlan

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
LORA = LoraSpec(r=8, alpha=16, dropout=0.1)
LAYERS = 32
LOOP = LoopSpec(batch_size=8, gradient_accumulation=8)


@pytest.mark.parametrize(
    ("model", "mode", "checkpointed"),
    [
        (PHI4, "fp16-mixed", 2),
        (QWEN2, "fp32", 0),
        ("tiny/audio-flamingo-3", "fp32", 1),
        ("tiny/granite-speech", "fp32", 3),
        ("tiny/granite-speech", "fp16-mixed", 0),
        ("tiny/qwen2.5-omni", "fp32", 0),
        ("tiny/qwen2.5-omni", "fp32", 4),
        ("tiny/voxtral", "fp32", 2),
    ],
)
def test_the_estimate_is_near_the_real_peak(
    model: str, mode: str, checkpointed: int, made: Callable[[str], Any]
) -> None:
    one, plan = made(model), judge_precision(capability=None, requested=mode)
    batches = [one.collator([one.samples[i] for i in places]) for places in ((1,), (3,))]
    adapter = load_model(one.base, plan, FRESH, LORA, "cpu")
    cast_trainable(adapter, plan)
    checkpoint_layers(adapter, checkpointed)
    real = peak_of_two_steps(adapter, plan, batches)
    rows, length = batches[1]["labels"].shape
    shape = Shape(rows, length, len(batches[1]["label_positions"]))
    estimate = Estimator(one.base, plan, FRESH, LORA, on_card=False).peak_bytes(shape, checkpointed)
    assert estimate == pytest.approx(real, rel=0.06)


def peak_of_two_steps(adapter: Any, plan: Any, batches: list[dict[str, Any]]) -> int:
    """Return the peak of an optimizer step of one micro-batch and one of two, counted on the real tensors."""
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(adapter)])
    adapter.train()
    live = LiveBytes()
    for tensor in (*adapter.parameters(), *adapter.buffers()):
        live.add(tensor)
    dtype = getattr(torch, plan.autocast_dtype or "float32")
    with live:
        for step in (batches[:1], batches):
            for batch in step:
                inputs = {name: value for name, value in batch.items() if name != SAMPLES}
                with torch.autocast("cpu", dtype=dtype, enabled=plan.autocast_dtype is not None):
                    loss = adapter(**inputs).loss
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return live.peak


def test_the_paper_fits_a_card_of_24_gigabytes() -> None:
    config = Phi4MultimodalConfig(num_attention_heads=24, tie_word_embeddings=True)
    base = BaseModel("", None, False, config, find_model("phi4_multimodal"), None, None)
    turing = judge_precision(capability=(7, 5))
    estimator = Estimator(base, turing, FRESH, LoraSpec(), on_card=True)
    assert sum(p.numel() for _, p in trainable_parameters(estimator.model)) == 92_274_688
    assert not any("image_embed" in name for name, _ in estimator.model.named_parameters())
    needed = estimator.peak_bytes(Shape(8, 420, 8 * 60), LAYERS)
    assert 11 * 10**9 < needed < 0.9 * memory_of("TITAN RTX")


@pytest.mark.parametrize("model", sorted(TINY))
@pytest.mark.parametrize(("on_card", "mode", "masked"), [(False, "fp32", False), (True, "fp16-mixed", True)])
def test_attention_has_a_mask_in_the_estimate_where_it_has_one_in_training(
    model: str, on_card: bool, mode: str, masked: bool, made: Callable[[str], Any]
) -> None:
    plan = judge_precision(capability=None, requested=mode)
    estimator = Estimator(made(model).base, plan, FRESH, LORA, on_card=on_card)
    layers = estimator.model.get_base_model().get_decoder().layers
    seen: list[bool] = []
    for layer in layers:
        layer.self_attn.register_forward_pre_hook(
            lambda module, inputs, named: seen.append(named["attention_mask"] is not None), with_kwargs=True
        )
    estimator.peak_bytes(Shape(2, 40, 10), 2)
    # Checkpointed layers run twice.
    assert seen == [masked] * (len(layers) + 2)


def test_checkpointed_layers_are_the_first_ones(made: Callable[[str], Any]) -> None:
    adapter = load_model(made(PHI4).base, judge_precision(capability=None), FRESH, LORA, "cpu")
    for count in (2, 4, 0, 3):
        assert checkpoint_layers(adapter, count) == 4
        flags = [layer.gradient_checkpointing for layer in adapter.get_base_model().model.layers]
        assert flags == [number < count for number in range(4)]


def peak(shape: Shape, checkpointed: int) -> int:
    """Ten units of weights, and activations of one unit per sample and layer that is not checkpointed."""
    return 10 + shape.samples * (LAYERS - checkpointed) + shape.samples


def samples(*answers: int) -> list[Any]:
    return [type("S", (), {"__len__": lambda self: 400, "labels": n + 1})() for n in answers]


def plan(available: int | None, loop: LoopSpec = LOOP) -> MemoryPlan:
    return plan_memory(loop, samples(*[30] * 20), Device("a card", available), LAYERS, peak)


@pytest.mark.parametrize(
    ("available", "loop", "expected"),
    [
        (1000, LOOP, (8, 8, 0)),
        (250, LOOP, (8, 8, 3)),
        (142, LOOP, (4, 16, 0)),
        (44, LOOP, (8, 8, 29)),
        (13, LOOP, (2, 32, 32)),
        (11, LOOP, (1, 64, 32)),
        (5, LOOP, (1, 64, 32)),
        (None, LOOP, (8, 8, 32)),
        (142, replace(LOOP, micro_batch=8), (8, 8, 17)),
        (20, replace(LOOP, gradient_checkpointing=True), (8, 8, 32)),
        (1000, replace(LOOP, gradient_checkpointing=True), (8, 8, 32)),
        (142, replace(LOOP, gradient_checkpointing=False), (4, 16, 0)),
    ],
)
def test_the_fastest_division_that_fits_is_chosen(
    available: int | None, loop: LoopSpec, expected: tuple[int, int, int]
) -> None:
    made = plan(available, loop)
    assert (made.micro_batch, made.accumulation, made.checkpointed) == expected
    assert made.micro_batch * made.accumulation == 64
    assert made.fits == (available != 5)


@pytest.mark.parametrize("available", range(11, 300, 7))
def test_a_plan_fits_and_would_not_fit_with_one_checkpointed_layer_less(available: int) -> None:
    made = plan(available)
    assert made.needed_bytes is not None
    assert made.needed_bytes <= available
    if made.checkpointed:
        assert peak(Shape(made.micro_batch, 400, 0), made.checkpointed - 1) > available


def test_a_plan_is_for_the_longest_answers() -> None:
    seen: list[Shape] = []

    def record(shape: Shape, checkpointed: int) -> int:
        seen.append(shape)
        return 0

    plan_memory(LOOP, samples(*range(1, 21)), Device("a card", 100), LAYERS, record)
    assert {(shape.samples, shape.labels) for shape in seen} == {(8, sum(range(13, 21)) + 8)}


def test_a_card_that_is_too_small_is_refused_with_numbers_and_a_cpu_is_not() -> None:
    gib = 2**30
    small = replace(plan(5), needed_bytes=12 * gib, available_bytes=7 * gib, device="Tesla P4 (assumed)")
    check_memory(small, Device("the CPU", 7 * gib, is_card=False))
    with pytest.raises(TrainingFailed) as failed:
        check_memory(small, Device("Tesla P4 (assumed)", 7 * gib))
    assert failed.value.exit_code is ExitCode.GPU
    assert failed.value.message == (
        "1 sample of 400 tokens, with 32 of 32 layers checkpointed, needs about 12 GiB; Tesla P4 (assumed) has 7 GiB "
        "to use"
    )
    assert failed.value.hint == "a card with more memory, a smaller lora.r or shorter samples"


@pytest.mark.parametrize(
    ("loop", "hint"),
    [
        (replace(LOOP, micro_batch=8), "--set train.micro_batch=auto"),
        (replace(LOOP, micro_batch=1, gradient_checkpointing=False), "--set train.gradient_checkpointing=auto"),
    ],
)
def test_the_hint_names_the_setting_to_change(loop: LoopSpec, hint: str) -> None:
    with pytest.raises(TrainingFailed) as failed:
        check_memory(plan(5, loop), Device("a card", 5))
    assert failed.value.hint == hint


def test_a_model_that_cannot_be_estimated_is_trained_as_configured() -> None:
    assert plan_without_estimate(LOOP, 32).describe() == "micro-batch 8 x 8, 32 of 32 layers checkpointed"
    explicit = replace(LOOP, micro_batch=2, gradient_checkpointing=False)
    assert plan_without_estimate(explicit, 32).describe() == "micro-batch 2 x 32, 0 of 32 layers checkpointed"


def test_a_host_without_a_card_plans_for_the_assumed_card_or_for_its_main_memory() -> None:
    spec: Any = SimpleNamespace(train=LOOP, card="TITAN RTX", card_bytes=24 * 2**30)
    cpu = torch.device("cpu")
    assumed = find_device(spec, cpu)
    assert assumed == Device("TITAN RTX (assumed)", int(0.9 * (24 * 2**30 - CONTEXT_BYTES)))
    spec.card_bytes = None
    own = find_device(spec, cpu)
    free = available_main_memory()
    assert own.name == "the CPU"
    assert free is None or 0 < own.available_bytes < free * 1.1
