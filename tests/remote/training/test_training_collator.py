"""The batches of the collator: only the tokens of the answer have labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from remote.payload.training import shared_prefix
from remote.payload.training.collator import check_labels
from remote.payload.training.failure import TrainingFailed
from remote.payload.training.families.registry import TINY
from remote.payload.training.prompts import CONTROL

PHI4 = "tiny/phi4-multimodal"
every = pytest.mark.parametrize("model", sorted(TINY))


@pytest.fixture(autouse=True)
def separate_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples in rows of their own: the system prompt of some families is long enough to be shared."""
    monkeypatch.setattr(shared_prefix, "MOST_WORK", 0.0)


def batch_of(one: Any, count: int = 6) -> tuple[list[Any], dict[str, Any]]:
    # A recording for each: samples of one recording would share its audio.
    items = [one.samples[2 * i + i % 2] for i in range(count)]
    return [sample for sample, _ in items], one.collator(items)


@every
def test_exactly_the_answer_and_its_end_are_labelled(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    samples, batch = batch_of(one)
    for sample, ids, labels, mask in zip(
        samples, batch["input_ids"].tolist(), batch["labels"].tolist(), batch["attention_mask"].tolist(), strict=True
    ):
        length, prompt = len(sample), len(sample.prompt)
        assert labels[:prompt] == [-100] * prompt
        assert labels[prompt:length] == ids[prompt:length] == [*sample.answer, *sample.end]
        assert labels[length:] == [-100] * (len(labels) - length)
        assert mask == [1] * length + [0] * (len(mask) - length)
    assert len({len(sample) for sample in samples}) > 1


@every
def test_audio_positions_are_as_many_as_the_encoder_gives_and_never_labelled(
    model: str, made: Callable[[str], Any]
) -> None:
    one = made(model)
    samples, batch = batch_of(one)
    audio = one.base.tokenizer.convert_tokens_to_ids(one.base.family.placeholder)
    places = batch["input_ids"] == audio
    assert places.sum(dim=1).tolist() == [one.clip_of(sample.recording).tokens for sample in samples]
    assert (batch["labels"][places] == -100).all()


@every
def test_labels_decode_to_the_targets(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    samples, batch = batch_of(one)
    assert 0.005 < check_labels(batch, samples, one.base.tokenizer) < 0.6


@every
def test_each_task_has_its_control_token_in_the_prompt(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    for sample in one.samples.samples:
        text = one.base.tokenizer.decode(sample.prompt)
        assert [task for task, token in CONTROL.items() if token in text] == [sample.task]


def test_labels_that_do_not_decode_to_the_target_stop_training(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    samples, batch = batch_of(one)
    shifted = batch["labels"].roll(1, dims=1)
    with pytest.raises(TrainingFailed) as failed:
        check_labels(
            {**batch, "labels": shifted},
            [replace(samples[0], target="something else"), *samples[1:]],
            one.base.tokenizer,
        )
    assert failed.value.name == "labels-decode"


def test_a_batch_in_which_every_token_has_a_label_stops_training(made: Callable[[str], Any]) -> None:
    one = made(PHI4)
    samples, batch = batch_of(one)
    bare = [replace(sample, prompt=()) for sample in samples]
    items = [(sample, one.clip_of(sample.recording)) for sample in bare]
    batch = one.collator(items)
    with pytest.raises(TrainingFailed) as failed:
        check_labels(batch, bare, one.base.tokenizer)
    assert failed.value.name == "labels-masked"


@every
def test_prompts_are_padded_on_the_left(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    items = [one.samples[i] for i in range(4)]
    batch = one.collator.prompts(items)
    for (sample, _), ids, mask in zip(
        items, batch["input_ids"].tolist(), batch["attention_mask"].tolist(), strict=True
    ):
        assert tuple(ids[-len(sample.prompt) :]) == sample.prompt
        assert sum(mask) == len(sample.prompt)
        assert mask[-1] == 1
