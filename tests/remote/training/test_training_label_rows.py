"""The last layer and the logits are computed for labelled positions only, checkpointed layers in parts.

Loss and gradients are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from remote.payload.training import decoder_layers, label_loss
from remote.payload.training.base_model import cast_trainable, checkpoint_layers, load_model, trainable_parameters
from remote.payload.training.collator import SAMPLES
from remote.payload.training.families.registry import TINY
from remote.payload.training.memory import LiveBytes
from remote.policy.precision import judge_precision
from remote.protocol.training import FRESH, LoraSpec

PLAN = judge_precision(capability=None)
LAYERS = 4
every = pytest.mark.parametrize("model", sorted(TINY))


@pytest.fixture
def trained(made: Callable[[str], Any]) -> Callable[[str], tuple[Any, dict[str, Any]]]:
    """Return a model with an adapter that has an effect, and a batch with padding."""

    def make(model: str) -> tuple[Any, dict[str, Any]]:
        one = made(model)
        torch.manual_seed(0)
        adapter = load_model(one.base, PLAN, FRESH, LoraSpec(r=4, alpha=8, dropout=0.0), "cpu")
        cast_trainable(adapter, PLAN)
        with torch.no_grad():
            for _, parameter in trainable_parameters(adapter):
                parameter.normal_(std=0.02)
        batch = one.collator([one.samples[i] for i in (0, 3)])
        return adapter.train(), {name: value for name, value in batch.items() if name != SAMPLES}

    return make


def gradients_of(adapter: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    adapter.zero_grad()
    loss.backward()
    return {name: parameter.grad.clone() for name, parameter in trainable_parameters(adapter)}


@every
@pytest.mark.parametrize("checkpointed", [0, LAYERS - 1, LAYERS])
def test_loss_and_gradients_are_those_of_all_logits(
    model: str, checkpointed: int, trained: Callable[[str], tuple[Any, dict[str, Any]]]
) -> None:
    adapter, batch = trained(model)
    labels = batch["labels"]
    unlabelled = {name: value for name, value in batch.items() if name not in ("labels", "label_positions")}
    logits = adapter(**unlabelled, use_cache=False).logits
    plain = cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
    wanted = gradients_of(adapter, plain)
    assert checkpoint_layers(adapter, checkpointed) == LAYERS
    ours = adapter(**batch).loss
    assert ours.item() == pytest.approx(plain.item(), abs=2e-6)
    for name, gradient in gradients_of(adapter, ours).items():
        off = (gradient - wanted[name]).abs().max() / wanted[name].abs().max()
        assert off < 1e-4, name


@every
@pytest.mark.parametrize("checkpointed", [0, LAYERS])
def test_the_mlp_of_the_last_layer_gets_the_positions_before_labels(
    model: str, checkpointed: int, trained: Callable[[str], tuple[Any, dict[str, Any]]]
) -> None:
    adapter, batch = trained(model)
    checkpoint_layers(adapter, checkpointed)
    seen = mlp_rows(adapter)
    adapter(**batch)
    assert [sum(rows) for rows in seen] == [*[batch["labels"].numel()] * (LAYERS - 1), len(batch["label_positions"])]


def mlp_rows(adapter: Any) -> list[list[int]]:
    """Return a list for each layer, to which every call of its MLP adds the number of rows."""
    seen: list[list[int]] = []
    for layer in adapter.get_base_model().get_decoder().layers:
        seen.append([])
        layer.mlp.register_forward_pre_hook(
            lambda module, inputs, rows=seen[-1]: rows.append(inputs[0].shape[:-1].numel())
        )
    return seen


class Products(TorchDispatchMode):
    """Counts the matrix products with each weight."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[int] = Counter()

    def of(self, linear: Any) -> int:
        return self.counts[linear.weight.untyped_storage().data_ptr()]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
            self.counts.update(one.untyped_storage().data_ptr() for one in args)
        return func(*args, **(kwargs or {}))


@every
def test_the_backward_pass_recomputes_a_layer_once_in_parts_and_without_its_last_product(
    model: str, trained: Callable[[str], tuple[Any, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoder_layers, "LEAST_ROWS", 30)
    adapter, batch = trained(model)
    checkpoint_layers(adapter, LAYERS)
    rows, products = mlp_rows(adapter), Products()
    loss = adapter(**batch).loss
    forward = [list(one) for one in rows]
    assert all(max(one) <= -(-batch["labels"].numel() // decoder_layers.PARTS) for one in forward)
    with products:
        loss.backward()
    assert [sorted(one) for one in rows] == [sorted(2 * one) for one in forward]
    for layer, parts in zip(adapter.get_base_model().get_decoder().layers, forward, strict=True):
        assert products.of(layer.self_attn.o_proj.base_layer) == 2, "recomputed, and the gradient"
        assert products.of(layer.mlp.down_proj.base_layer) == len(parts), "the gradient only"


@pytest.mark.parametrize("model", ["tiny/phi4-multimodal", "tiny/qwen2-audio"])
def test_the_recomputation_in_parts_draws_the_same_dropout(
    model: str, trained: Callable[[str], tuple[Any, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter, batch = trained(model)
    checkpoint_layers(adapter, LAYERS)
    for module in adapter.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    found = []
    for kept in (False, True):
        if kept:
            monkeypatch.setattr(decoder_layers, "checkpoint", lambda function, hidden, **named: function(hidden))
        torch.manual_seed(1)
        loss = adapter(**batch).loss
        found.append((loss.item(), gradients_of(adapter, loss)))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(gradient, found[1][1][name]) for name, gradient in found[0][1].items())


def test_a_retained_graph_is_recomputed_for_each_backward_pass(
    trained: Callable[[str], tuple[Any, dict[str, Any]]],
) -> None:
    adapter, batch = trained("tiny/phi4-multimodal")
    checkpoint_layers(adapter, LAYERS)
    loss = adapter(**batch).loss
    parameters = [parameter for _, parameter in trainable_parameters(adapter)]
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    again = torch.autograd.grad(loss, parameters)
    assert all(torch.equal(one, other) for one, other in zip(first, again, strict=True))


def test_after_an_error_the_last_layer_returns_all_positions(
    trained: Callable[[str], tuple[Any, dict[str, Any]]],
) -> None:
    adapter, batch = trained("tiny/qwen2-audio")
    last = adapter.get_base_model().get_decoder().layers[-1]
    usual = last.forward
    broken = last.mlp.register_forward_pre_hook(lambda module, inputs: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        adapter(**batch)
    broken.remove()
    assert last.forward == usual
    assert not last.self_attn.o_proj._forward_pre_hooks


def head(words: int, size: int, scale: float = 1.0) -> torch.nn.Linear:
    made = torch.nn.Linear(size, words, bias=False).requires_grad_(False)
    torch.nn.init.normal_(made.weight, std=scale)
    return made


def test_logits_are_computed_in_parts_and_none_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    lm_head, rows = head(5000, 16), torch.randn(103, 16, requires_grad=True)
    targets = torch.randint(0, 5000, (103,))
    plain = cross_entropy(lm_head(rows), targets, reduction="sum") / 7
    (wanted,) = torch.autograd.grad(plain, rows)
    monkeypatch.setattr(label_loss, "LOGIT_BYTES", 10 * 4 * 5000)
    live = LiveBytes()
    live.add(lm_head.weight)
    with live:
        ours = label_loss.label_loss(rows, lm_head, targets, torch.tensor(7))
        kept = live.now - lm_head.weight.nbytes
        (gradient,) = torch.autograd.grad(ours, rows)
    assert ours.item() == pytest.approx(plain.item(), rel=1e-6)
    assert torch.allclose(gradient, wanted, rtol=1e-4, atol=1e-5)
    assert live.peak - lm_head.weight.nbytes < 1.2 * 10 * 4 * 5000, "the logits of ten rows"
    assert kept < 3 * rows.nbytes


def test_a_probability_below_the_smallest_half_counts_in_the_gradient() -> None:
    # 4,000 words of probability 2e-8 each: 0 in float16, 8e-5 of the gradient together.
    lm_head = head(4001, 1)
    lm_head.weight.fill_(1.0)
    lm_head.weight[0] = 18.7
    rows = torch.ones(3, 1, requires_grad=True)
    targets = torch.zeros(3, dtype=torch.long)
    # In float32, a sum that begins with 1 would lose some of these probabilities.
    logits = torch.nn.functional.linear(rows.double(), lm_head.weight.double())
    (wanted,) = torch.autograd.grad(cross_entropy(logits, targets, reduction="sum"), rows)
    with torch.autocast("cpu", dtype=torch.float16):
        loss = label_loss.label_loss(rows, lm_head, targets, 1)
    (gradient,) = torch.autograd.grad(loss, rows)
    assert wanted.abs().min() > 1e-3
    assert torch.allclose(gradient, wanted, rtol=0.02)


def test_a_trained_head_gets_its_gradient() -> None:
    torch.manual_seed(0)
    lm_head = head(50, 8).requires_grad_(True)
    rows, targets = torch.randn(5, 8, requires_grad=True), torch.arange(5)
    label_loss.label_loss(rows, lm_head, targets).backward()
    assert lm_head.weight.grad is not None
    assert lm_head.weight.grad.abs().sum() > 0


def test_a_micro_batch_without_labels_has_no_loss() -> None:
    rows = torch.randn(0, 8, requires_grad=True)
    loss = label_loss.label_loss(rows, head(50, 8), torch.zeros(0, dtype=torch.long), 7)
    loss.backward()
    assert loss.item() == 0
    assert rows.grad is not None
