"""What only a CUDA card shows. `make gpu-day` runs these tests; elsewhere they are skipped."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from remote.payload.training import attention_mask
from remote.payload.training.base_model import cast_trainable, load_model, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.families.registry import TINY
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

TURING = judge_precision(capability=(7, 5))
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA card on this machine"),
]
every = pytest.mark.parametrize("model", sorted(TINY))


def step(one: Any, adapter: Any) -> torch.Tensor:
    """Return the loss of a micro-batch of four, after its backward pass, in the precision of a Turing card."""
    made = one.collator([one.samples[i] for i in (0, 2, 4, 6)])
    batch = {name: value.cuda() for name, value in made.items() if name != SAMPLES}
    with torch.autocast("cuda", dtype=torch.float16):
        loss: torch.Tensor = adapter(**batch, num_items_in_batch=len(batch["label_positions"])).loss
    (loss * 1024).backward()
    return loss.detach()


def adapter_of(one: Any) -> Any:
    adapter = load_model(one.base, TURING, FRESH, LoraSpec(r=4, alpha=8, dropout=0.0), "cuda:0")
    cast_trainable(adapter, TURING)
    return adapter.train()


@every
def test_the_kernel_and_the_mask_of_an_older_card_give_the_same_loss_and_gradients(
    model: str, made: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = adapter_of(made(model))
    losses, gradients = [], []
    for flash in ((0, 0), (99, 0)):
        monkeypatch.setattr(attention_mask, "FLASH", flash)
        backends = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with sdpa_kernel(backends if flash > (9, 0) else [*backends, SDPBackend.FLASH_ATTENTION]):
            losses.append(float(step(made(model), adapter)))
        gradients.append(torch.cat([p.grad.flatten() for _, p in trainable_parameters(adapter)]))
        adapter.zero_grad()
    assert losses[1] == pytest.approx(losses[0], rel=1e-2)
    assert bool(gradients[1].isfinite().all())
    assert torch.allclose(gradients[0], gradients[1], atol=2e-2 * float(gradients[0].abs().max()))


@every
def test_the_backward_pass_never_waits_for_the_card(model: str, made: Callable[[str], Any]) -> None:
    one = made(model)
    adapter = adapter_of(one)
    step(one, adapter)
    batch = {name: value.cuda() for name, value in one.collator([one.samples[0]]).items() if name != SAMPLES}
    with torch.autocast("cuda", dtype=torch.float16):
        loss = adapter(**batch, num_items_in_batch=8).loss
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as waits:
            warnings.simplefilter("always")
            loss.backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert [str(one.message) for one in waits if "synchroniz" in str(one.message)] == []


@pytest.mark.train
@pytest.mark.parametrize("capability", [(7, 5), None])
def test_a_training_on_the_card_ends_with_a_lower_loss_and_a_peak(
    capability: tuple[int, int] | None, make_spec: Callable[..., Any], training: Callable[..., Any]
) -> None:
    found = judge_precision(capability=capability or torch.cuda.get_device_capability())
    spec = dataclasses.replace(make_spec(epochs=6, gradient_accumulation=1, learning_rate=1e-2), precision=found)
    code, out, err = training(spec).run()
    assert code == 0, out + err
    progress = json.loads((Path(spec.paths.run) / "progress.json").read_text())
    assert progress["best_loss"] < 4.0
    assert 2**20 < progress["peak_bytes"] < 2**33
    assert f"on {torch.cuda.get_device_name()}" in out, "memory is planned for this card"
