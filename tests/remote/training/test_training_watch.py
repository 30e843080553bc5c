"""Training that is worth nothing is a named failure, at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from remote.payload.training.failure import Preempted, TrainingFailed
from remote.payload.training.reporting import applied_steps, render_step
from remote.payload.training.stop_request import StopRequest
from remote.payload.training.watch import PATIENCE, Watch, judge_loss


@pytest.mark.parametrize("loss", [0.0, -0.0, math.nan, math.inf, -math.inf])
def test_a_loss_of_zero_or_no_number_fails_by_name(loss: float) -> None:
    with pytest.raises(TrainingFailed, match="step 7") as failed:
        judge_loss(loss, 7)
    assert failed.value.name == ("loss-zero" if loss == 0 else "loss-finite")


@pytest.mark.parametrize("loss", [1e-9, 0.4, 12.0])
def test_a_loss_that_training_can_give_passes(loss: float) -> None:
    judge_loss(loss, 1)


class Two(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = torch.nn.Parameter(torch.ones(2))
        self.b = torch.nn.Parameter(torch.ones(2))


@pytest.fixture
def watched() -> Callable[..., Callable[[], None]]:
    """One optimizer step under a Watch, with the gradients it finds there."""

    def make(**gradients: Any) -> Callable[[], None]:
        model, watch = Two(), Watch()
        watch.trainer = SimpleNamespace(step_losses=[torch.tensor(0.5)])
        watch.on_train_begin(None, None, None, model=model)
        for name, gradient in gradients.items():
            getattr(model, name).grad = None if gradient is None else torch.tensor(gradient)
        return lambda: watch.on_pre_optimizer_step(None, SimpleNamespace(global_step=0), None, model=model)

    return make


def test_an_adapter_without_any_gradient_fails_in_its_first_step(watched: Any) -> None:
    for gradients in ({"a": None, "b": None}, {"a": [0.0, 0.0], "b": None}):
        with pytest.raises(TrainingFailed) as failed:
            watched(**gradients)()
        assert failed.value.name == "gradient-zero"


def test_a_tensor_that_is_never_reached_fails_and_is_named(watched: Any) -> None:
    step = watched(a=[0.0, 1.0], b=[0.0, 0.0])
    for _ in range(PATIENCE - 1):
        step()
    with pytest.raises(TrainingFailed, match="1 adapter tensors got no gradient in 5 optimizer steps: b"):
        step()


def test_an_overflow_under_a_loss_scale_is_a_gradient(watched: Any) -> None:
    step = watched(a=[math.inf, 0.0], b=[math.nan, math.nan])
    for _ in range(PATIENCE + 1):
        step()


def test_skipped_steps_are_those_adam_did_not_count() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.AdamW([weight])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    assert applied_steps(optimizer) == 0
    for gradient in (1.0, math.inf, 2.0):
        weight.grad = torch.tensor([gradient]) * scaler.scale(torch.tensor(1.0))
        scaler.step(optimizer)
        scaler.update()
    assert applied_steps(optimizer) == 2
    assert scaler.get_scale() == 2.0


def test_a_step_reads_as_one_line() -> None:
    scalars = {"loss": 2.5, "grad_norm": 1.25, "learning_rate": 2e-5, "loss_scale": 65536.0, "skipped_steps": 1.0}
    line = render_step(3, 120, {**scalars, "tokens_per_second": 812.4, "peak_memory": 1.0}, 10.26)
    assert line == "step 3/120  loss 2.5000  grad 1.250  lr 2.00e-05  scale 65536  skipped 1  10.26 s  812 tok/s"


def test_a_stop_before_training_ends_at_once_and_one_within_waits_for_the_step() -> None:
    stop = StopRequest()
    with pytest.raises(Preempted):
        stop._note(15, None)
    stop = StopRequest()
    stop.on_train_begin(None, None, None)
    stop._note(15, None)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    stop.on_step_end(SimpleNamespace(world_size=1), SimpleNamespace(global_step=4), control)
    assert control.should_save
    assert control.should_training_stop
    with pytest.raises(Preempted):
        stop.settle()
