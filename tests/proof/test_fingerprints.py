"""Fingerprints of weights: what they find, and how much memory they need."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from remote.payload.proof.hooks import tensors
from remote.payload.proof.hooks.tensors import fingerprint, moved, nonfinite


class Sums(TorchDispatchMode):
    """Records the sizes of the tensors that are converted to another dtype and summed."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if kwargs and kwargs.get("dtype") is torch.float64:
            self.sizes.append(args[0].numel())
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("count", [1, 9, 10, 11, 25])
def test_few_values_at_a_time_are_summed_in_float64(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SUMMED_AT_ONCE", 10)
    values = torch.arange(1, count + 1).half()
    with Sums() as sums:
        _, total = fingerprint([("weight", values)])["weight"]
    assert max(sums.sizes) <= 10
    assert sum(sums.sizes) == count
    assert total.dtype is torch.float64
    assert total.item() == count * (count + 1) / 2


@pytest.mark.parametrize("at", [0, 9, 10, 24])
def test_a_change_in_any_part_of_a_tensor_is_found(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensors, "SUMMED_AT_ONCE", 10)
    monkeypatch.setattr(tensors, "SAMPLE", 1)
    weight = torch.ones(5, 5, dtype=torch.bfloat16)
    before = fingerprint([("weight", weight)])
    weight.view(-1)[at] += 2**-7
    assert moved(before, fingerprint([("weight", weight)])) == {"weight": True}
    weight.view(-1)[at] = float("nan")
    assert nonfinite(fingerprint([("weight", weight)])) == ["weight"]
