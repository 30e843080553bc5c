"""Cross entropy at labelled positions only, without logits for the other positions.

Full logits of 8 x 900 tokens over 200,064 words are 5.8 GB in float32, and about three times that with their gradient.
For 8 answers of 120 tokens, they are 0.8 GB.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Optional, Union

import torch
from torch.nn.functional import cross_entropy
from transformers.modeling_outputs import CausalLMOutputWithPast

from remote.payload.training.attention_mask import training_mask

IGNORED = -100


def use_label_loss(model: Any) -> None:
    """Patch `model` so that `model(labels=..., ...)` returns only the loss. Calls without labels are unchanged.

    `model` is a causal language model whose `.model` returns hidden states and whose `.lm_head` returns logits. With
    labels, rows must be padded on the right.
    """
    plain = model.forward

    # `generate` and Trainer read the signature, so it must remain that of the model.
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
        rows = labels if input_ids is None else input_ids
        mask = training_mask(attention_mask, rows, self.get_input_embeddings().weight.dtype)
        # Qwen2.5-Omni would compute the positions from a mask of two dimensions.
        kwargs.setdefault("position_ids", torch.arange(rows.shape[1], device=rows.device)[None])
        outputs = self.model(input_ids=input_ids, attention_mask=mask, use_cache=False, **kwargs)
        if label_positions is None:
            label_positions = find_labels(labels)
        loss = label_loss(outputs.last_hidden_state, self.lm_head, labels, label_positions, num_items_in_batch)
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
    hidden: torch.Tensor,
    lm_head: Any,
    labels: torch.Tensor,
    positions: torch.Tensor,
    num_items: Union[torch.Tensor, int, None] = None,
) -> torch.Tensor:
    """Return the mean cross entropy in float32 over the labels (batch, length) at `positions` of the flattened batch.

    Each label is predicted from the position before it.
    The sum is divided by `num_items`, the number of labels in all micro-batches of the optimizer step, so that
    accumulated gradients equal those of one large batch. If it is None, the number of labels in this batch is used.
    """
    logits = lm_head(hidden.flatten(0, 1).index_select(0, positions - 1)).float()
    total = cross_entropy(logits, labels.flatten().index_select(0, positions), reduction="sum")
    return total / (len(positions) if num_items is None else num_items)
