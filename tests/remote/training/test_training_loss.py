"""The loss from label positions equals the plain loss, and other logits are not computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from remote.payload.training.attention_mask import training_mask
from remote.payload.training.base_model import load_model, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.label_loss import find_labels, label_loss
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

PHI4, QWEN2 = "tiny/phi4-multimodal", "tiny/qwen2-audio"
both = pytest.mark.parametrize("model", [PHI4, QWEN2])
PLAN = judge_precision(capability=None)


@pytest.fixture
def adapted(made: Callable[[str], Any]) -> Callable[[str], Any]:
    def make(model: str) -> Any:
        torch.manual_seed(0)
        return load_model(made(model).base, PLAN, FRESH, LoraSpec(r=4, alpha=8, dropout=0.0), "cpu")

    return make


def batch_of(one: Any, *places: int) -> dict[str, Any]:
    batch = one.collator([one.samples[i] for i in places])
    del batch[SAMPLES]
    return batch  # type: ignore[no-any-return]


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in trainable_parameters(model) if p.grad is not None}


@both
def test_the_loss_equals_the_mean_cross_entropy_of_full_logits(
    model: str, made: Callable[[str], Any], adapted: Callable[[str], Any]
) -> None:
    batch = batch_of(made(model), 0, 1, 2, 3)
    adapter = adapted(model).eval()
    with torch.no_grad():
        ours = adapter(**batch).loss
        labels = batch.pop("labels")
        logits = adapter(**batch).logits
    plain = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
    assert ours.item() == pytest.approx(plain.item(), abs=1e-5)


@both
def test_accumulated_micro_batches_equal_one_batch(
    model: str, made: Callable[[str], Any], adapted: Callable[[str], Any]
) -> None:
    one, adapter = made(model), adapted(model).eval()
    parts = [batch_of(one, 0, 1), batch_of(one, 2, 3)]
    items = torch.stack([(part["labels"] != -100).sum() for part in parts]).sum()
    assert len({int((part["labels"] != -100).sum()) for part in parts}) == 2
    total = 0.0
    for part in parts:
        loss = adapter(**part, num_items_in_batch=items).loss
        loss.backward()
        total += loss.item()
    accumulated = gradients(adapter)
    adapter.zero_grad()
    whole = adapter(**batch_of(one, 0, 1, 2, 3)).loss
    whole.backward()
    assert total == pytest.approx(whole.item(), abs=1e-5)
    for name, gradient in gradients(adapter).items():
        assert torch.allclose(gradient, accumulated[name], atol=1e-5), name


def test_logits_are_computed_for_label_positions_only(
    made: Callable[[str], Any], adapted: Callable[[str], Any]
) -> None:
    batch = batch_of(made(PHI4), 0, 1, 2, 3)
    adapter = adapted(PHI4)
    rows: list[int] = []
    adapter.base_model.model.lm_head.register_forward_hook(
        lambda module, inputs, output: rows.append(output.shape[:-1].numel())
    )
    adapter(**batch)
    assert rows == [int((batch["labels"] != -100).sum())]


@both
def test_only_adapter_tensors_get_a_gradient_and_all_of_them_do(
    model: str, made: Callable[[str], Any], adapted: Callable[[str], Any]
) -> None:
    adapter = adapted(model)
    adapter.train()
    adapter(**batch_of(made(model), 0, 1)).loss.backward()
    names = [name for name, parameter in adapter.named_parameters() if parameter.grad is not None]
    assert names == [name for name, _ in trainable_parameters(adapter)]
    assert all("lora_" in name for name in names)
    assert not any("audio" in name or "vision" in name or "img_processor" in name for name in names)


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """The names of the operations that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


WAITS = {"nonzero", "_local_scalar_dense", "masked_select"}


@pytest.mark.parametrize("frozen", [True, False])
def test_the_loss_does_not_wait_for_the_device(frozen: bool, made: Callable[[str], Any]) -> None:
    labels = batch_of(made(PHI4), 0, 1)["labels"]
    with Operations() as collating:
        positions = find_labels(labels)
    assert "nonzero" in collating.names
    rows = torch.randn(len(positions), 8, requires_grad=True)
    head = torch.nn.Linear(8, 1024).requires_grad_(not frozen)
    with Operations() as training:
        label_loss(rows, head, labels.flatten()[positions], torch.tensor(7)).backward()
    assert not WAITS & set(training.names)


def test_a_padding_mask_is_dropped_and_any_other_mask_is_made_additive_once() -> None:
    ids = torch.zeros(2, 3, dtype=torch.long)
    assert training_mask(torch.tensor([[1, 1, 1], [1, 1, 0]]), ids, torch.float32) is None
    visible = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]
    mask = training_mask(visible, ids, torch.float32)
    assert mask is not None
    assert torch.equal(mask == 0, visible)
    assert torch.equal(mask == -torch.inf, ~visible)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert training_mask(visible, ids, torch.float32).dtype == torch.bfloat16  # type: ignore[union-attr]
