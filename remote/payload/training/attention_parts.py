"""Masked causal attention in parts, without most of the pairs of tokens that the mask excludes.

With a mask, the kernels compute every pair of tokens in a row, including keys after the query. Here, the queries are
split into parts, and each part gets only the keys up to its last query. The parts have little more than half of all
pairs.
"""

from __future__ import annotations

import copy
from typing import Any, Optional, Tuple

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

PART = 256
"""The number of queries in a part.

On a CPU, 192 to 256 queries were the fastest for 1,512 tokens (0.66 of the time).
"""
NAME = "sdpa_in_parts"


def use_attention_in_parts(model: Any) -> None:
    """Patch the decoder layers of a model with SDPA. Every mask of their training batches must be causal."""
    decoder = model.get_decoder()
    if decoder.config._attn_implementation != "sdpa":
        return
    AttentionInterface.register(NAME, attend_in_parts)
    # Only the attention modules get this config; with the decoder's own config, transformers creates SDPA's masks.
    config = copy.deepcopy(decoder.config)
    config._attn_implementation = NAME
    for layer in decoder.layers:
        layer.self_attn.config = config


def attend_in_parts(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    dropout: float = 0.0,
    scaling: Optional[float] = None,
    **named: Any,
) -> Tuple[torch.Tensor, None]:
    """Return the same attention output as transformers' SDPA, with shape (rows, length, heads, size)."""
    length = query.shape[2]
    if value.requires_grad and value.untyped_storage().nbytes() > value.nbytes:
        # The backward pass needs queries and keys after their rotation. The value must not keep the tensor that it is a
        # part of (the output of `qkv_proj`, in Phi-4 five times as large).
        value = value.clone()
    if attention_mask is None or not module.training or length <= PART:
        inputs = (module, query, key, value, attention_mask)
        whole: Tuple[torch.Tensor, None] = sdpa_attention_forward(*inputs, dropout=dropout, scaling=scaling, **named)
        return whole
    # Keys and values are repeated for all heads once, so that the parts share them in the backward pass.
    key, value = (repeat_kv(one, query.shape[1] // one.shape[1]) for one in (key, value))
    parts = [
        scaled_dot_product_attention(
            query[:, :, start:stop],
            key[:, :, :stop],
            value[:, :, :stop],
            attn_mask=attention_mask[:, :, start:stop, :stop],
            dropout_p=dropout,
            scale=scaling,
        )
        for start, stop in ((at, min(at + PART, length)) for at in range(0, length, PART))
    ]
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None
