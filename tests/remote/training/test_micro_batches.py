"""Micro-batches have little padding and stay within the planned memory; the steps and their gradients stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from remote.payload.training.base_model import load_model, trainable_parameters
from remote.payload.training.batches import EpochOrder
from remote.payload.training.collator import LABEL_POSITIONS, SAMPLES
from remote.payload.training.families.registry import TINY
from remote.payload.training.memory import Estimator, Shape
from remote.payload.training.memory_plan import Device, plan_memory, plan_without_estimate
from remote.payload.training.micro_batches import StepCollator, StepSampler, StepSamples, cut_by_tokens
from remote.payload.training.trainer import AudioTrainer, training_arguments
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoopSpec, LoraSpec, MemoryPlan

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
PLAN = judge_precision(capability=None)
LORA = LoraSpec(r=4, alpha=8, dropout=0.0)
SIZES = st.lists(st.tuples(st.integers(1, 900), st.integers(1, 150)), min_size=1, max_size=70)


class FakeSample:
    def __init__(self, length: int, labels: int) -> None:
        self.length = length
        self.labels = labels

    def __len__(self) -> int:
        return self.length


def sampler_of(
    samples: Sequence[Any],
    step_size: int,
    plan: MemoryPlan,
    process: int = 0,
    processes: int = 1,
    pass_tokens: int = 32,
) -> StepSampler:
    order = EpochOrder(lambda epoch: list(range(len(samples))), [len(one) for one in samples], step_size, 42)
    made: Any = SimpleNamespace(samples=samples)
    return StepSampler(order, made, plan, pass_tokens=pass_tokens, process=process, processes=processes)


def planned(samples: Sequence[Any], size: int, count: int) -> MemoryPlan:
    """A plan for `count` micro-batches of `size` samples on a device with any memory."""
    loop = LoopSpec(batch_size=size, gradient_accumulation=count)
    return plan_memory(loop, samples, Device("a card", 2**60), 4, lambda shape, checkpointed: 1)


@given(SIZES, st.integers(1, 8), st.integers(1, 8), st.integers(1, 3))
def test_every_sample_of_a_step_is_trained_once_within_the_planned_memory(
    sizes: list[tuple[int, int]], size: int, count: int, processes: int
) -> None:
    samples = [FakeSample(*one) for one in sizes]
    plan = planned(samples, size, count)
    step_size = size * count * processes
    samplers = [sampler_of(samples, step_size, plan, process, processes) for process in range(processes)]
    order = list(samplers[0].order)
    for number, steps in enumerate(zip(*samplers, strict=True)):
        trained = [i for step in steps for batch in step if batch.has_labels for i in batch.samples]
        assert sorted(trained) == sorted(order[number * step_size : (number + 1) * step_size])
        assert len({len(step) for step in steps}) == 1, "a sharded model needs the same micro-batches on all processes"
        for batch in (batch for step in steps for batch in step):
            rows = [samples[i] for i in batch.samples]
            assert len(rows) * max(map(len, rows)) <= size * plan.length
            assert sum(row.labels for row in rows) <= sum(sorted((one.labels for one in samples), reverse=True)[:size])
    assert number + 1 == len(samplers[0])


def divisions(count: int) -> Iterator[list[tuple[int, int]]]:
    """Yield every division of `count` samples into neighbours."""
    for chosen in range(2 ** (count - 1)):
        ends = [0, *(i + 1 for i in range(count - 1) if chosen >> i & 1), count]
        yield list(pairwise(ends))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 9)), min_size=1, max_size=9),
    st.integers(0, 200),
    st.integers(9, 40),
    st.integers(0, 30),
)
def test_no_other_division_costs_less(
    sizes: list[tuple[int, int]], positions: int, labels: int, pass_tokens: int
) -> None:
    sizes.sort(reverse=True)
    lengths, counts = zip(*sizes, strict=True)

    def cost(cuts: list[tuple[int, int]]) -> int:
        return sum((stop - start) * lengths[start] + pass_tokens for start, stop in cuts)

    def fits(start: int, stop: int) -> bool:
        within = (stop - start) * lengths[start] <= positions and sum(counts[start:stop]) <= labels
        return within or stop - start == 1

    found = cut_by_tokens(lengths, counts, positions, labels, pass_tokens)
    allowed = [cuts for cuts in divisions(len(sizes)) if all(fits(*cut) for cut in cuts)]
    assert found in allowed
    assert cost(found) == min(map(cost, allowed))


def test_mixed_lengths_take_less_padding_than_micro_batches_of_a_fixed_size() -> None:
    samples = [FakeSample(length, 1) for length in [400] * 9 + [200] * 9 + [100] * 14]
    plan = planned(samples, 8, 4)

    def tokens(plan: MemoryPlan) -> int:
        (step,) = sampler_of(samples, 32, plan)
        return sum(len(batch.samples) * max(len(samples[i]) for i in batch.samples) for batch in step)

    assert tokens(plan) == sum(len(sample) for sample in samples)
    assert tokens(replace(plan, positions=0)) > 1.2 * tokens(plan)


def test_micro_batches_have_a_fixed_size_if_their_memory_was_not_planned_by_tokens() -> None:
    samples = [FakeSample(100 + i, 1) for i in range(13)]
    loop = LoopSpec(batch_size=4, gradient_accumulation=4)
    plan = plan_without_estimate(loop, 4)
    assert plan.positions == 0
    steps = list(sampler_of(samples, 16, plan))
    assert [[len(batch.samples) for batch in step] for step in steps] == [[4, 4, 4, 1]]
    shares = [next(iter(sampler_of(samples, 16, plan, process, 2))) for process in (0, 1)]
    assert [[len(batch.samples) for batch in share] for share in shares] == [[4, 4], [4, 1]]


def test_a_step_that_fits_as_a_whole_is_one_micro_batch() -> None:
    samples = [FakeSample(900, 9), *(FakeSample(10, 9) for _ in range(7))]
    (step,) = sampler_of(samples, 8, planned(samples, 8, 1))
    assert [len(batch.samples) for batch in step] == [8]


def test_a_smaller_micro_batch_keeps_the_samples_of_each_step() -> None:
    samples = [FakeSample(37 * i % 400 + 20, i % 30 + 1) for i in range(70)]
    samplers = [sampler_of(samples, 16, planned(samples, size, 16 // size)) for size in (8, 4, 1)]
    for steps in zip(*samplers, strict=True):
        assert len({tuple(sorted(i for batch in step for i in batch.samples)) for step in steps}) == 1
        assert [len(step) for step in steps] == sorted(len(step) for step in steps)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in trainable_parameters(model) if p.grad is not None}


def train_step(model: Any, micro_batches: list[dict[str, Any]]) -> float:
    """Return the loss of an optimizer step, after its backward passes."""
    model.zero_grad()
    labels = sum(len(batch[LABEL_POSITIONS]) for batch in micro_batches)
    total = 0.0
    for batch in micro_batches:
        inputs = {name: value for name, value in batch.items() if name != SAMPLES}
        loss = model(**inputs, num_items_in_batch=labels).loss
        loss.backward()
        total += loss.item()
    return total


def collated(one: Any, sampler: StepSampler) -> list[dict[str, Any]]:
    collator = StepCollator(replace(one.collator, shares_prefixes=False))
    loader = DataLoader(StepSamples(one.samples), batch_sampler=sampler, collate_fn=collator)
    (step,) = loader
    return step  # type: ignore[no-any-return]


@pytest.mark.parametrize("model", [PHI4, QWEN2])
def test_loss_and_gradients_equal_those_of_micro_batches_of_a_fixed_size(
    model: str, made: Callable[[str], Any]
) -> None:
    one = made(model)
    samples = one.samples.samples
    torch.manual_seed(0)
    adapter = load_model(one.base, PLAN, FRESH, LORA, "cpu").eval()
    for name, parameter in trainable_parameters(adapter):
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    plan = planned(samples, 4, 4)
    by_tokens = collated(one, sampler_of(samples, 16, plan, pass_tokens=20))
    fixed = collated(one, sampler_of(samples, 16, replace(plan, positions=0)))
    assert len({len(batch["input_ids"]) for batch in by_tokens}) > 1
    assert [len(batch["input_ids"]) for batch in fixed] == [4, 4, 4, 4]
    losses, found = [], []
    for step in (by_tokens, fixed):
        losses.append(train_step(adapter, step))
        found.append(gradients(adapter))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    largest = max(float(gradient.abs().max()) for gradient in found[1].values())
    for name, gradient in found[0].items():
        assert torch.allclose(gradient, found[1][name], atol=1e-5 * largest, rtol=1e-4), name


@pytest.mark.parametrize("model", sorted(TINY))
def test_the_trainer_takes_the_same_step_with_one_and_with_two_micro_batches(
    model: str, made: Callable[[str], Any], make_spec: Callable[..., Any]
) -> None:
    """The forward of Qwen2-Audio, unlike ours, ignores num_items_in_batch and would double loss and gradients."""
    one = made(model)
    arguments = training_arguments(make_spec(model=model, batch_size=4, gradient_accumulation=1), device="cpu")
    lengths = [len(sample) for sample in one.samples.samples[:4]]
    found = []
    for count in (1, 2):
        torch.manual_seed(0)
        trainer = AudioTrainer(
            plan=PLAN,
            order=EpochOrder(lambda epoch: [0, 1, 2, 3], lengths, 4, 42),
            memory=replace(planned(one.samples.samples[:4], 4 // count, count), positions=0),
            model=load_model(one.base, PLAN, FRESH, LORA, "cpu"),
            args=arguments,
            train_dataset=one.samples,
            data_collator=replace(one.collator, shares_prefixes=False),
        )
        trainer.create_optimizer()
        trainer.current_gradient_accumulation_steps = 1
        [step], labels = trainer.get_batch_samples(iter(trainer.get_train_dataloader()), 1, torch.device("cpu"))
        assert len(step) == count
        loss = trainer.training_step(trainer.model, step, labels)
        found.append((float(loss), gradients(trainer.model)))
    (loss, whole), (accumulated_loss, accumulated) = found
    assert accumulated_loss == pytest.approx(loss, rel=1e-6)
    largest = max(float(gradient.abs().max()) for gradient in whole.values())
    assert largest > 0.0
    # Granite's gradients differ by 3e-5 of the largest one; computed in float64, by 2e-15.
    for name, gradient in whole.items():
        assert torch.allclose(gradient, accumulated[name], atol=1e-4 * largest, rtol=0.0), name


@pytest.mark.parametrize("model", [PHI4, QWEN2])
def test_a_process_without_samples_computes_along_without_a_gradient(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = load_model(one.base, PLAN, FRESH, LORA, "cpu").train()
    samples = one.samples.samples[:3]
    steps = [
        collated(one, sampler_of(samples, 4, planned(samples, 1, 2), process, 2, pass_tokens=0)) for process in (0, 1)
    ]
    assert [[len(batch[SAMPLES]) for batch in step] for step in steps] == [[1, 1], [1, 0]]
    (batch,) = steps[1][1:]
    del batch[SAMPLES]
    loss = adapter(**batch, num_items_in_batch=9).loss
    loss.backward()
    assert loss.item() == 0.0
    names = {name for name, _ in trainable_parameters(adapter)}
    assert gradients(adapter).keys() == names
    assert not any(gradient.any() for gradient in gradients(adapter).values())


@pytest.mark.parametrize("model", sorted(TINY))
@pytest.mark.parametrize(("mode", "on_card", "checkpointed"), [("fp32", False, 0), ("fp16-mixed", True, 4)])
def test_shorter_rows_with_as_many_tokens_and_labels_need_no_more_memory(
    model: str, mode: str, on_card: bool, checkpointed: int, made: Callable[[str], Any]
) -> None:
    plan = judge_precision(capability=None, requested=mode)
    estimator = Estimator(made(model).base, plan, FRESH, LORA, on_card=on_card)
    longest = estimator.peak_bytes(Shape(2, 320, 60), checkpointed)
    for rows in (4, 16):
        assert estimator.peak_bytes(Shape(rows, 640 // rows, 60), checkpointed) <= 1.001 * longest
