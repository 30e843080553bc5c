"""Prompts that begin alike are computed once per micro-batch, with the loss and gradients of separate rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from remote.payload.training.base_model import (
    cast_trainable,
    checkpoint_layers,
    load_model,
    trainable_parameters,
)
from remote.payload.training.collator import SAMPLES, check_labels
from remote.payload.training.families.registry import TINY
from remote.payload.training.memory import Estimator, LiveBytes, Shape
from remote.payload.training.memory_plan import Device, plan_memory
from remote.payload.training.samples import Sample, SampleSet, make_samples
from remote.payload.training.shared_prefix import is_shared, row_length, share_prefixes
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoopSpec, LoraSpec

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
every = pytest.mark.parametrize("model", sorted(TINY))
PLAN = judge_precision(capability=None)
LORA = LoraSpec(r=4, alpha=8, dropout=0.0)


def audio_last(one: Any, tasks: Sequence[str] = ("apa", "mdd")) -> SampleSet:
    return make_samples(one.recordings, tasks, one.base.family, one.base.tokenizer, one.clip_of, {}, "last")


def adapted(one: Any) -> Any:
    torch.manual_seed(0)
    adapter = load_model(one.base, PLAN, FRESH, LORA, "cpu")
    cast_trainable(adapter, PLAN)
    with torch.no_grad():
        for _, parameter in trainable_parameters(adapter):
            parameter.normal_(std=0.02)
    return adapter.train()


def one_row(one: Any, items: Sequence[Any]) -> dict[str, Any]:
    batch = one.collator(items)
    assert batch["input_ids"].shape == (1, row_length([sample for sample, _ in items]))
    del batch[SAMPLES]
    return batch  # type: ignore[no-any-return]


def separate_rows(one: Any, items: Sequence[Any]) -> dict[str, Any]:
    longest = max(len(sample) for sample, _ in items)
    ids = torch.zeros(len(items), longest, dtype=torch.long)
    labels = torch.full_like(ids, -100)
    for row, (sample, _) in enumerate(items):
        answer = torch.tensor([*sample.answer, *sample.end])
        ids[row, : len(sample)] = torch.tensor([*sample.prompt, *answer])
        labels[row, len(sample.prompt) : len(sample)] = answer
    clips = one.base.family.pad(one.base.extractor, [clip for _, clip in items])
    return {"input_ids": ids, "labels": labels, **clips}


def loss_and_gradients(adapter: Any, batch: dict[str, Any]) -> tuple[float, dict[str, torch.Tensor]]:
    adapter.zero_grad()
    # A fixed number of labels, as in accumulation, shows that every label has the same weight as in its own row.
    loss = adapter(**batch, num_items_in_batch=100).loss
    loss.backward()
    return float(loss.detach()), {name: parameter.grad.clone() for name, parameter in trainable_parameters(adapter)}


def assert_equal_training(adapter: Any, one: Any, items: Sequence[Any]) -> None:
    shared, gradients = loss_and_gradients(adapter, one_row(one, items))
    separate, wanted = loss_and_gradients(adapter, separate_rows(one, items))
    assert shared == pytest.approx(separate, abs=1e-6, rel=1e-6)
    for name, gradient in wanted.items():
        # Rounding differs with the number of rows; in the tiny granite-speech, by up to 6e-5.
        assert (gradients[name] - gradient).abs().max() <= 1e-4 * gradient.abs().max(), name


@every
@pytest.mark.parametrize("checkpointed", [0, 3])
def test_prompts_before_the_audio_are_computed_once_with_equal_loss_and_gradients(
    model: str, checkpointed: int, made: Callable[[str], Any]
) -> None:
    one = made(model)
    samples = audio_last(one)
    adapter = adapted(one)
    checkpoint_layers(adapter, checkpointed)
    mixed = [samples[i] for i in (0, 2, 1, 4, 3, 6)]
    assert {sample.task for sample, _ in mixed} == {"apa", "mdd"}
    assert_equal_training(adapter, one, mixed)


@every
def test_questions_about_one_clip_share_its_audio_which_is_encoded_once(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    first, clip = one.samples[0]
    answers = [replace(first, answer=first.answer[: 3 + n]) for n in range(3)]
    other, other_clip = one.samples[2]
    items = [(answers[0], clip), (answers[1], clip), (other, other_clip), (answers[2], clip), (other, other_clip)]
    row = share_prefixes([sample for sample, _ in items])
    assert row.clips == (0, 2)
    assert_equal_training(adapted(one), one, items)


def test_a_token_attends_to_its_own_sample_only(made: Callable[[str], Any]) -> None:
    samples = [audio_last(made(PHI4))[i][0] for i in (0, 2, 1)]
    row = share_prefixes(samples)
    ends = [int(at) for at in (row.ids[0] == samples[0].end[-1]).nonzero().flatten()]
    assert len(ends) == len(samples)
    for sample, end in zip(samples, ends, strict=True):
        seen = row.visible[0, 0, end]
        assert row.ids[0, seen].tolist() == [*sample.prompt, *sample.answer, *sample.end]
        assert row.positions[0, seen].tolist() == list(range(len(sample)))


def test_prompts_that_begin_with_different_audio_are_separate_rows(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    items = [one.samples[i] for i in (0, 2, 4, 6)]
    assert len({sample.prompt[: sample.audio[0]] for sample, _ in items}) == 1
    assert not is_shared([sample for sample, _ in items])
    assert len(one.collator(items)["input_ids"]) == 4


@every
def test_the_audio_is_where_the_config_says(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    tokenizer = one.base.tokenizer
    placeholder = tokenizer.convert_tokens_to_ids(one.base.family.placeholder)
    samples = audio_last(one)
    for sample in samples.samples:
        first, last = sample.audio
        assert list(sample.prompt[first:last]) == [placeholder] * one.clip_of(sample.recording).tokens
        before, after = tokenizer.decode(sample.prompt[:first]), tokenizer.decode(sample.prompt[last:])
        control = {"apa": "<|APA|>", "mdd": "<|MDD|>"}[sample.task]
        assert control in before
        assert control not in after
        assert after == one.base.tokenizer.decode(samples.samples[0].prompt[samples.samples[0].audio[1] :])


def test_labels_of_a_shared_row_are_checked(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    items = [audio_last(one)[i] for i in (0, 2, 4)]
    samples = [sample for sample, _ in items]
    batch = one.collator(items)
    assert len(batch["labels"]) == 1
    check_labels(batch, samples, one.base.tokenizer)
    extra = batch["labels"].clone()
    extra[0, 1] = 5
    with pytest.raises(Exception, match=r"labels of .* decode to"):
        check_labels({**batch, "labels": extra}, samples, one.base.tokenizer)


@pytest.mark.parametrize(("model", "checkpointed"), [(PHI4, 2), (QWEN2, 0)])
def test_the_estimate_of_a_shared_row_is_near_the_real_peak(
    model: str, checkpointed: int, made: Callable[[str], Any]
) -> None:
    one = made(model)
    items = [audio_last(one)[i] for i in (0, 2, 4, 6)]
    batch = one_row(one, items)
    adapter = adapted(one)
    checkpoint_layers(adapter, checkpointed)
    optimizer = torch.optim.AdamW([parameter for _, parameter in trainable_parameters(adapter)])
    live = LiveBytes()
    for tensor in (*adapter.parameters(), *adapter.buffers()):
        live.add(tensor)
    with live:
        for _ in range(2):
            adapter(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    shape = Shape(1, batch["labels"].shape[1], len(batch["label_positions"]), accumulates=False, is_shared=True)
    estimate = Estimator(one.base, PLAN, FRESH, LORA, on_card=False).peak_bytes(shape, checkpointed)
    assert estimate == pytest.approx(live.peak, rel=0.06)


def test_the_memory_is_planned_for_the_micro_batches_of_the_epochs(made: Callable[[str], Any]) -> None:
    samples: Sequence[Sample] = audio_last(made(PHI4), ["apa"]).samples
    loop = LoopSpec(batch_size=4, gradient_accumulation=2)
    order = list(range(8))
    seen: list[Shape] = []

    def peak(shape: Shape, checkpointed: int) -> int:
        seen.append(shape)
        return shape.samples * shape.length

    longest = max(len(sample) for sample in samples)
    shared = max(row_length(samples[:4]), row_length(samples[4:]))
    assert shared < 2 * longest
    card = Device("a card", 2 * longest)
    plan = plan_memory(loop, samples, card, 4, peak, [order])
    assert (plan.micro_batch, plan.shared_length, plan.needed_bytes) == (4, shared, shared)
    assert {(shape.samples, shape.length, shape.is_shared) for shape in seen} == {(1, shared, True)}
    assert plan.describe().startswith("micro-batch 4 x 2, shared prefixes once, 0 of 4 layers checkpointed")
    without = plan_memory(loop, samples, card, 4, peak)
    assert (without.micro_batch, without.shared_length) == (2, 0)
