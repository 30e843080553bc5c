"""Several processes compute what one would."""

from __future__ import annotations

import os

import pytest

from fixers.plans.in_processes import in_processes


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("items", [[], [1], list(range(2)), list(range(7))])
def test_results_are_in_the_order_of_the_items(items: list[int], processes: int) -> None:
    assert in_processes(lambda item: item * item, items, processes) == [item * item for item in items]


def test_the_items_are_divided_among_the_processes() -> None:
    own, other, *_ = in_processes(lambda item: os.getpid(), [0, 1, 2, 3], 2)
    assert own == os.getpid() != other


def test_an_exception_of_another_process_is_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        in_processes(lambda item: 1 / item, [1, 0], 2)


def test_the_items_of_a_process_that_ends_early_are_computed_here() -> None:
    here = os.getpid()
    assert in_processes(lambda item: item if os.getpid() == here else os._exit(3), [1, 2, 3], 2) == [1, 2, 3]


def test_few_items_start_no_process() -> None:
    assert set(in_processes(lambda item: os.getpid(), list(range(20)))) == {os.getpid()}
