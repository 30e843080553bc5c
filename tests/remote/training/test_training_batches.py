"""The order of samples is a pure function, and an epoch has as many steps as in the transformers Trainer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.payload.training.batches import EpochOrder, group_by_length, tokens_of_steps
from remote.protocol.training import planned_steps, task_of

LENGTHS = st.lists(st.integers(1, 900), min_size=1, max_size=120)


@given(LENGTHS, st.integers(1, 70), st.integers(0, 3))
def test_an_epoch_has_every_sample_once(lengths: list[int], step_size: int, epoch: int) -> None:
    samples = range(len(lengths))
    assert sorted(group_by_length(samples, lengths, step_size, 42, epoch)) == list(samples)


@given(LENGTHS, st.integers(1, 70))
def test_the_longest_sample_of_all_full_steps_comes_first_and_each_step_is_sorted(
    lengths: list[int], step_size: int
) -> None:
    order = [lengths[i] for i in group_by_length(range(len(lengths)), lengths, step_size, 42, 0)]
    whole = order[: len(order) - len(order) % step_size]
    assert not whole or whole[0] == max(whole)
    for start in range(0, len(order), step_size):
        step = order[start : start + step_size]
        assert step == sorted(step, reverse=True)


def test_each_optimizer_step_has_samples_of_different_lengths() -> None:
    lengths = [100] * 256 + [400] * 256
    order = group_by_length(range(512), lengths, 64, 42, 0)
    long = [sum(lengths[i] == 400 for i in order[at : at + 64]) for at in range(0, 512, 64)]
    assert all(0 < count < 64 for count in long)


def test_order_follows_from_seed_and_epoch_alone() -> None:
    lengths = [7 * i % 50 for i in range(64)]
    first = group_by_length(range(64), lengths, 4, 42, 0)
    assert first == group_by_length(range(64), lengths, 4, 42, 0)
    assert first != group_by_length(range(64), lengths, 4, 42, 1)
    assert first != group_by_length(range(64), lengths, 4, 43, 0)


def test_batches_waste_less_padding_than_the_given_order() -> None:
    lengths = [37 * i % 400 + 1 for i in range(256)]
    grouped = group_by_length(range(256), lengths, 8, 42, 0)

    def padding(order: list[int]) -> int:
        batches = [order[i : i + 8] for i in range(0, 256, 8)]
        return sum(max(lengths[i] for i in batch) * len(batch) - sum(lengths[i] for i in batch) for batch in batches)

    assert padding(grouped) < padding(list(range(256))) / 4


def test_each_epoch_has_its_own_order() -> None:
    order = EpochOrder(lambda epoch: [epoch, epoch + 1], [5, 5, 5, 5], 1, 42)
    order.set_epoch(2)
    assert len(order) == 2
    assert sorted(order) == [2, 3]


def test_tasks_alternate_between_epochs() -> None:
    turns = [[task_of(recording, epoch, 2) for recording in range(4)] for epoch in range(3)]
    assert turns[0] == [0, 1, 0, 1]
    assert all(a != b for one, two in pairwise(turns) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(
    ("samples", "settings", "steps"),
    [
        (2500, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 1, "tasks": 2}, 40),
        (2500, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 3, "tasks": 2}, 120),
        (2500, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 3, "processes": 4}, 30),
        (44, {"batch_size": 4, "gradient_accumulation": 2, "epochs": 6}, 36),
        (1, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 1}, 1),
        (0, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 1}, 0),
        (2500, {"batch_size": 8, "gradient_accumulation": 8, "epochs": 3, "max_steps": 7}, 7),
    ],
)
def test_steps_are_known_before_training(samples: int, settings: dict[str, int], steps: int) -> None:
    assert planned_steps(samples, **settings) == steps


@given(LENGTHS, st.integers(1, 70), st.integers(1, 3))
def test_the_tokens_of_the_steps_are_those_of_the_samples(lengths: list[int], step_size: int, epochs: int) -> None:
    orders = [group_by_length(range(len(lengths)), lengths, step_size, 42, epoch) for epoch in range(epochs)]
    tokens = tokens_of_steps(orders, lengths, step_size)
    assert len(tokens) == epochs * -(-len(lengths) // step_size)
    assert sum(tokens) == epochs * sum(lengths)
    assert tokens[0] == sum(lengths[sample] for sample in orders[0][:step_size])
