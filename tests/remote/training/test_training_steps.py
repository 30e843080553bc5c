"""What the built-in trainer reports about its steps, and how it stops between them."""

from __future__ import annotations

import math
import os
import signal
import weakref
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from remote.payload.training.failure import Preempted
from remote.payload.training.reporting import applied_steps, render_step
from remote.payload.training.stop_request import StopRequest
from remote.payload.training.trainer import AudioTrainer


def test_skipped_steps_are_the_steps_that_adam_did_not_count() -> None:
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


@pytest.mark.parametrize("scales", [True, False])
def test_the_loss_scale_of_a_checkpoint_is_loaded_only_by_a_job_that_scales_its_loss(
    scales: bool, tmp_path: Path
) -> None:
    torch.save(torch.amp.GradScaler("cpu", init_scale=8.0).state_dict(), tmp_path / "scaler.pt")
    trainer = object.__new__(AudioTrainer)
    trainer.accelerator = SimpleNamespace(scaler=torch.amp.GradScaler("cpu") if scales else None)
    trainer._load_scaler(str(tmp_path))
    assert not scales or trainer.accelerator.scaler.get_scale() == 8.0


def test_the_log_line_of_a_step() -> None:
    scalars = {"loss": 2.5, "grad_norm": 1.25, "learning_rate": 2e-5, "loss_scale": 65536.0, "skipped_steps": 1.0}
    line = render_step(3, 120, {**scalars, "tokens_per_second": 812.4, "peak_memory": 1.0}, 10.26)
    assert line == "step 3/120  loss 2.5000  grad 1.250  lr 2.00e-05  scale 65536  skipped 1  10.26 s  812 tok/s"


def test_a_stop_before_training_takes_effect_at_once_and_one_during_it_after_the_step() -> None:
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


class Collected:
    """Its finalizer gets a SIGTERM; Python prints what is raised there, and goes on."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)


def note_in_finalizer() -> None:
    Collected()


def note_in_weak_reference() -> None:
    class Target: ...

    target = Target()
    kept = weakref.ref(target, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    del target
    assert kept() is None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("collect", [note_in_finalizer, note_in_weak_reference])
def test_a_stop_that_python_ignored_ends_the_training_before_its_first_step(collect: Callable[[], None]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    stop = StopRequest()
    stop.listen()
    try:
        collect()
        assert stop.requested
        with pytest.raises(Preempted):
            stop.on_train_begin(None, None, None)
    finally:
        signal.signal(signal.SIGTERM, before)
