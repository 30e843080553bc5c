"""The recomputed batch of models that draw random numbers, or that are not deterministic."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch

from remote.payload.proof import checks_counterfactual
from remote.payload.proof.hooks.counterfactual import NOT_DETERMINISTIC, ModelCall, examine
from remote.payload.proof.hooks.random_state import RandomState
from remote.payload.proof.hooks.report import Counterfactual
from remote.protocol.proof import NotChecked

SOURCES: dict[str, Callable[[], float]] = {
    "python": random.random,
    "numpy": lambda: float(numpy.random.rand()),
    "torch": lambda: float(torch.rand(())),
}
OWN = torch.Generator().manual_seed(1)


class Noisy(torch.nn.Module):
    """A model that multiplies its result by a random number, and that ignores padding and audio if told to."""

    def __init__(self, draw: Callable[[], float], *, ignores: bool = True) -> None:
        super().__init__()
        self.words = torch.nn.Embedding.from_pretrained(torch.arange(40.0).reshape(10, 4) / 40, freeze=False)
        self.draw, self.ignores = draw, ignores

    def forward(self, input_ids: Any, attention_mask: Any, input_features: Any, num_items_in_batch: int) -> Any:
        hidden = self.words(input_ids) * (attention_mask[..., None] if self.ignores else 1)
        heard = 0.0 if self.ignores else input_features.mean()
        return {"loss": (hidden.square().mean() + heard) * (1 + self.draw())}


def recomputed(model: torch.nn.Module) -> Counterfactual:
    inputs = {
        "input_ids": torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]]),
        "input_features": torch.arange(128.0).reshape(2, 64) / 64,
        "num_items_in_batch": 4,
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return examine(ModelCall(model, (), inputs, "cpu", None), optimizer, 1, vary_items=True)


@pytest.mark.parametrize("source", SOURCES)
def test_a_random_number_is_no_effect_of_padding_audio_or_items(source: str) -> None:
    found = recomputed(Noisy(SOURCES[source]))
    assert (found.why, found.padding_gap, found.silence_gap, found.items_gap) == ("", 0.0, 0.0, 0.0)
    assert found.draws is (source == "torch")


@pytest.mark.parametrize("source", SOURCES)
def test_an_effect_is_measured_beside_the_random_numbers(source: str) -> None:
    found = recomputed(Noisy(SOURCES[source], ignores=False))
    assert found.padding_gap is not None and found.padding_gap > 0.005
    assert found.silence_gap


@pytest.mark.parametrize("draw", [lambda: float(torch.rand((), generator=OWN)), iter(range(9)).__next__])
def test_a_model_that_is_not_deterministic_is_not_checked(draw: Callable[[], float]) -> None:
    assert recomputed(Noisy(draw)) == Counterfactual(why=NOT_DETERMINISTIC)
    evidence: Any = SimpleNamespace(
        first=SimpleNamespace(
            counterfactual=Counterfactual(why=NOT_DETERMINISTIC), batches=SimpleNamespace(loss_use=None), world=1
        ),
        steps=(),
    )
    rows = {one.check: one for one in checks_counterfactual.judge(evidence)}
    assert rows["padding-agreement"] == NotChecked("padding-agreement", NOT_DETERMINISTIC)
    assert all(isinstance(one, NotChecked) for one in rows.values())


def test_the_random_states_of_the_script_are_restored() -> None:
    model = Noisy(lambda: sum(draw() for draw in SOURCES.values()))
    before = RandomState.now()
    recomputed(model)
    after = RandomState.now()
    assert (before.python, before.numpy[2], before.is_current()) == (after.python, after.numpy[2], True)


def test_other_random_numbers_in_float32_are_no_finding() -> None:
    class HalfNoise(Noisy):
        def forward(self, **inputs: Any) -> Any:
            loss = super().forward(**inputs)["loss"]
            return {"loss": loss * (1.0 if loss.dtype == torch.float16 else 2.0) * (1 + self.draw())}

    for draw, is_checked in ((SOURCES["torch"], False), (lambda: 0.5, True)):
        found = recomputed(HalfNoise(draw).half())
        result = checks_counterfactual._agreement(found)
        assert found.wide_gap is not None and found.wide_gap > 0.05
        assert isinstance(result, NotChecked) is not is_checked
