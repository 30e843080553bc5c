"""Cross entropy at labelled positions only, without logits for the other positions.

Full logits of 8 x 900 tokens and 200,064 words are 5.8 GB in float32, and about three times as much with their
gradient. For 8 answers of 120 tokens, the logits are 0.8 GB. With a frozen `lm_head`, at most 256 MiB of logits exist
at a time.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Optional, Tuple, Union

import torch
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import CausalLMOutputWithPast

from remote.payload.training.attention_mask import training_mask
from remote.payload.training.decoder_layers import training_layers

IGNORED = -100
LOGIT_BYTES = 2**28
"""The largest size of the float32 logits that are computed at once, in bytes."""
GRADIENT_SCALE = 256.0
"""A factor for gradients.

It keeps the gradient of an unlikely word (about 1 / 200,064) above the smallest normal float16 (6e-5).
"""


def use_label_loss(model: Any) -> None:
    """Patch `model` so that `model(labels=..., ...)` returns only the loss. Calls without labels are unchanged.

    `model` is a causal language model whose `.model` returns hidden states and whose `.lm_head` returns logits. With
    labels, rows must be padded on the right.
    """
    plain = model.forward

    # `generate` and Trainer read the signature, so the patch must have the signature of the model.
    @functools.wraps(type(model).forward)
    def forward(
        self: Any,
        input_ids: Optional[torch.Tensor] = None,
        attention_mask: Optional[torch.Tensor] = None,
        labels: Optional[torch.Tensor] = None,
        num_items_in_batch: Union[torch.Tensor, int, None] = None,
        label_positions: Optional[torch.Tensor] = None,
        **inputs: Any,
    ) -> Any:
        if labels is None:
            return plain(input_ids=input_ids, attention_mask=attention_mask, **inputs)
        kwargs = {name: value for name, value in inputs.items() if name not in ("use_cache", "return_dict")}
        ids = labels if input_ids is None else input_ids
        mask = training_mask(attention_mask, ids, self.get_input_embeddings().weight.dtype)
        # Without positions, Qwen2.5-Omni would compute them from the two-dimensional mask, which `mask` replaces.
        kwargs.setdefault("position_ids", torch.arange(ids.shape[1], device=ids.device)[None])
        if label_positions is None:
            label_positions = find_labels(labels)
        before = label_positions - 1
        with training_layers(self.get_decoder().layers, before):
            hidden = self.model(input_ids=input_ids, attention_mask=mask, use_cache=False, **kwargs).last_hidden_state
        loss = label_loss(
            hidden.flatten(0, 1), self.lm_head, labels.flatten().index_select(0, label_positions), num_items_in_batch
        )
        return CausalLMOutputWithPast(loss=loss)

    model.forward = types.MethodType(forward, model)


def find_labels(labels: torch.Tensor) -> torch.Tensor:
    """Return the positions, in the flattened batch, of all labels other than -100 that have a position before them.

    On a card this waits for the device. The collator calls it while the labels are still in main memory.
    """
    shifted = labels.clone()
    shifted[:, 0] = IGNORED
    return (shifted.flatten() != IGNORED).nonzero().flatten()


def label_loss(
    rows: torch.Tensor, lm_head: Any, targets: torch.Tensor, num_items: Union[torch.Tensor, int, None] = None
) -> torch.Tensor:
    """Return the mean cross entropy in float32 of the `targets`, each predicted from one of the `rows` (targets, size).

    The sum is divided by `num_items`, the number of labels in all micro-batches of the optimizer step. The accumulated
    gradients therefore equal the gradients of one large batch. If `num_items` is None, the sum is divided by the number
    of targets.
    """
    if torch.is_grad_enabled() and _is_frozen(lm_head):
        total = _FrozenHeadLoss.apply(rows, lm_head, targets)
    else:
        total = cross_entropy(lm_head(rows).float(), targets, reduction="sum")
    return total / (len(targets) if num_items is None else num_items)


def _is_frozen(lm_head: Any) -> bool:
    return type(lm_head) is torch.nn.Linear and not any(one.requires_grad for one in lm_head.parameters())


class _FrozenHeadLoss(torch.autograd.Function):  # type: ignore[misc]
    """The summed cross entropy of `lm_head(rows)`; the forward pass also computes the gradient of the rows.

    Logits exist only for a few hundred rows at a time, and are not kept for the backward pass.
    """

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, lm_head: Any, targets: torch.Tensor) -> torch.Tensor:
        count = max(1, LOGIT_BYTES // (4 * lm_head.out_features))
        parts = zip(rows.split(count), targets[:, None].split(count))
        totals, gradients = zip(*(_total_and_gradient(part, lm_head, wanted) for part, wanted in parts))
        ctx.save_for_backward(torch.cat(gradients))
        ctx.dtype = rows.dtype
        return torch.stack(totals).sum()

    @staticmethod
    def backward(ctx: Any, grad_total: torch.Tensor) -> Any:
        (gradient,) = ctx.saved_tensors
        return (gradient.float() * (grad_total / GRADIENT_SCALE)).to(ctx.dtype), None, None


def _total_and_gradient(rows: torch.Tensor, lm_head: Any, targets: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """Return the summed cross entropy of the `targets` (rows, 1), and its gradient with respect to the rows.

    The gradient is multiplied by GRADIENT_SCALE.
    """
    logits = lm_head(rows)
    dtype = logits.dtype
    logits = logits.float()
    wanted, (most, likely) = logits.gather(-1, targets), logits.max(dim=-1, keepdim=True)
    # In place, so that one float32 tensor of this size exists. The largest power, 1, is left out of the sum, because
    # adding a small power to it would be rounded to 1.
    powers = logits.sub_(most).exp_().scatter_(-1, likely, 0.0)
    others = powers.sum(dim=-1, keepdim=True)
    total = (most + others.log1p() - wanted).sum()
    one = torch.ones_like(others)
    for at, value in ((likely, one), (targets, -one), (targets, -others)):
        powers.scatter_add_(-1, at, value)
    return total, powers.mul_(GRADIENT_SCALE / (1 + others)).to(dtype) @ lm_head.weight
