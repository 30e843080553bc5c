"""The recomputation with other padding gives a model no more audio placeholders than it has audio."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from remote.payload.proof.hooks.counterfactual import ModelCall, examine

AUDIO, PAD = 9, 0
IDS = [[AUDIO, AUDIO, AUDIO, 4, 5, 6], [AUDIO, AUDIO, 4, 7, PAD, PAD]]
MASK = [[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]


class Speech(torch.nn.Module):
    """A model that replaces each audio placeholder by one frame, as transformers' models do."""

    def __init__(self, *, sees_padding: bool) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(10, 4)
        self.head = torch.nn.Linear(4, 10)
        self.sees_padding = sees_padding

    def forward(self, input_ids: Any, attention_mask: Any, frames: Any, labels: Any = None) -> Any:
        hidden = self.words(input_ids)
        hidden[input_ids == AUDIO] = frames
        if not self.sees_padding:
            hidden = hidden * attention_mask[..., None]
        return self.head(hidden + hidden.mean(1, keepdim=True))


@pytest.mark.parametrize("labels", [None, [[-100, -100, -100, -100, 5, 6], [-100, -100, -100, 7, -100, -100]]])
@pytest.mark.parametrize("sees_padding", [False, True])
def test_padding_is_exchanged_for_text_only(labels: Any, *, sees_padding: bool) -> None:
    torch.manual_seed(0)
    model = Speech(sees_padding=sees_padding)
    inputs = {
        "input_ids": torch.tensor(IDS),
        "attention_mask": torch.tensor(MASK),
        "frames": torch.randn(5, 4),
        "labels": None if labels is None else torch.tensor(labels),
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = examine(ModelCall(model, (), inputs, "cpu", None), optimizer, 1)
    assert found.why == "" and found.finite
    assert found.padding_gap is not None and (found.padding_gap > 1e-3) is sees_padding


def test_a_batch_of_placeholders_only_has_no_text_to_exchange() -> None:
    model = Speech(sees_padding=False)
    inputs = {
        "input_ids": torch.tensor([[AUDIO, AUDIO, PAD]]),
        "attention_mask": torch.tensor([[1, 1, 0]]),
        "frames": torch.randn(2, 4),
    }
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = examine(ModelCall(model, (), inputs, "cpu", None), optimizer, 1)
    assert (found.why, found.padding_gap) == ("", None)


class Faint(torch.nn.Module):
    """A model with a loss that audio changes by less than half precision resolves. `share` scales the audio."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(64, dtype=torch.float16))
        self.share = share

    def forward(self, input_features: Any) -> dict[str, Any]:
        heard = (input_features * self.weight * self.share).sum(-1)
        return {"loss": (4 + heard.mean()).to(self.weight.dtype)}


@pytest.mark.parametrize(("share", "used"), [(1e-5, True), (0.0, False)])
def test_audio_that_changes_a_half_precision_loss_by_less_than_its_resolution_is_used(share: float, used: bool) -> None:
    model = Faint(share)
    inputs = {"input_features": torch.rand(4, 64, dtype=torch.float16)}
    found = examine(ModelCall(model, (), inputs, "cpu", None), torch.optim.SGD(model.parameters(), lr=0.1), 1)
    assert found.why == ""
    assert found.silence_gap is not None and (found.silence_gap > 0.0) is used


def test_audio_that_changes_the_logits_is_used_even_if_the_loss_stays() -> None:
    class SameLoss(Faint):
        def forward(self, input_features: Any) -> dict[str, Any]:
            return {"loss": self.weight.sum(), "logits": input_features * self.weight}

    model = SameLoss(1.0)
    inputs = {"input_features": torch.rand(4, 64, dtype=torch.float16)}
    found = examine(ModelCall(model, (), inputs, "cpu", None), torch.optim.SGD(model.parameters(), lr=0.1), 1)
    assert found.silence_gap == pytest.approx(1.0)


class Counted(torch.nn.Module):
    """A model whose loss is divided by num_items_in_batch, or by the number of its own labels."""

    def __init__(self, *, divides: bool) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.divides = divides

    def forward(self, features: Any, num_items_in_batch: Any = None) -> dict[str, Any]:
        return {"loss": (features * self.weight).sum() / (num_items_in_batch if self.divides else len(features))}


class DistributedDataParallel(torch.nn.Module):
    """A replica whose calls would wait for the other processes."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, **inputs: Any) -> Any:
        raise AssertionError("the other processes are paused")


@pytest.mark.parametrize("world", [1, 2])
@pytest.mark.parametrize("items", [8, torch.tensor(8)])
@pytest.mark.parametrize(("divides", "gap"), [(True, 0.5), (False, 0.0)])
def test_a_loss_that_the_model_divides_is_halved_by_twice_the_items(
    divides: bool, gap: float, items: Any, world: int
) -> None:
    model: Any = Counted(divides=divides)
    model = model if world == 1 else DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    call = ModelCall(model, (), {"features": torch.rand(2, 4), "num_items_in_batch": items}, "cpu", None)
    assert examine(call, optimizer, world, vary_items=True).items_gap == pytest.approx(gap)
    assert examine(call, optimizer, world).items_gap is None


def test_a_loss_of_zero_or_nan_says_nothing_about_the_items() -> None:
    for value in (0.0, float("nan")):
        model = Counted(divides=True)
        inputs = {"features": torch.full((2, 4), value), "num_items_in_batch": 8}
        call = ModelCall(model, (), inputs, "cpu", None)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        assert examine(call, optimizer, 1, vary_items=True).items_gap is None


class Plain(torch.nn.Module):
    """A model of a plain loop, which gets its features as the first positional argument."""

    def __init__(self, *, uses: bool) -> None:
        super().__init__()
        self.head = torch.nn.Linear(64, 3)
        self.uses = uses

    def forward(self, wavs: Any, labels: Any = None) -> Any:
        return self.head(wavs if self.uses else torch.ones_like(wavs))


class AroundPlain(torch.nn.Module):
    """PEFT's wrapper: its forward has no named arguments."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def get_base_model(self) -> torch.nn.Module:
        return self.model

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("uses", [False, True])
def test_positional_features_are_replaced_by_silence(uses: bool, wrapped: bool) -> None:
    model: Any = Plain(uses=uses)
    model = AroundPlain(model) if wrapped else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = examine(ModelCall(model, (torch.randn(4, 64), torch.zeros(4)), {}, "cpu", None), optimizer, 1)
    assert found.why == "" and found.silence_gap is not None and (found.silence_gap > 0) is uses


def test_positional_arguments_without_names_are_not_replaced() -> None:
    class Nameless(Plain):
        def forward(self, *inputs: Any) -> Any:
            return self.head(inputs[0])

    model = Nameless(uses=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert examine(ModelCall(model, (torch.randn(4, 64),), {}, "cpu", None), optimizer, 1).silence_gap is None
