"""The last decoder layer, computed after its attention for some positions only.

The loss needs its output only at the positions before labels. Every other layer is computed at all positions, because
the attention of the next layer reads all of them.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Iterator, Optional

import torch


@contextlib.contextmanager
def selected_rows(layer: Any, rows: torch.Tensor) -> Iterator[bool]:
    """Make `layer` return only `rows` of its flattened output (batch x length, size), as a batch of one.

    Yields False, and changes nothing, if the layer is checkpointed, because the backward pass runs such a layer again
    after the block.
    """
    if layer.gradient_checkpointing:
        yield False
        return
    forward = vars(layer).get("forward")
    layer.forward = types.MethodType(_forward(rows), layer)
    try:
        yield True
    finally:
        del layer.forward
        if forward is not None:
            layer.forward = forward


def _forward(rows: torch.Tensor) -> Any:
    def select(hidden: torch.Tensor) -> torch.Tensor:
        return hidden.flatten(0, 1).index_select(0, rows)[None]

    def forward(layer: Any, hidden_states: torch.Tensor, *inputs: Any, **named: Any) -> torch.Tensor:
        """Compute the layer like the decoder layers of transformers 5.23 (phi4_multimodal, qwen2, llama, granite)."""
        attention, share = layer.self_attn, getattr(layer, "residual_multiplier", 1.0)
        selecting = attention.o_proj.register_forward_pre_hook(lambda module, inputs: (select(inputs[0]),))
        try:
            attended = attention(layer.input_layernorm(hidden_states), *inputs, **named)[0]
        finally:
            selecting.remove()
        hidden = select(hidden_states) + _dropped(layer, "resid_attn_dropout", attended) * share
        made = layer.mlp(layer.post_attention_layernorm(hidden))
        out: torch.Tensor = hidden + _dropped(layer, "resid_mlp_dropout", made) * share
        return out

    return forward


def _dropped(layer: Any, name: str, hidden: torch.Tensor) -> torch.Tensor:
    dropout: Optional[Any] = getattr(layer, name, None)
    return hidden if dropout is None else dropout(hidden)
