"""What the built-in trainer reports about its steps, and how it stops between them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from remote.payload.training.failure import Preempted
from remote.payload.training.reporting import applied_steps, render_step
from remote.payload.training.stop_request import StopRequest


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
