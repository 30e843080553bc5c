"""The decoder layers of a training step: the last layer for some positions only, checkpointed layers in two parts.

The loss needs the output of the last layer only at the positions before labels. Every other layer is computed at all
positions, because the attention of the next layer reads all of them.

A checkpointed layer keeps only its input. Its backward pass needs two parts again: the attention, and the MLP, whose
tensors are several times as large. They are recomputed one after the other, the MLP for a part of the positions at a
time, so that only a part of a layer's activations exists at once.
"""

from __future__ import annotations

import contextlib
import types
from typing import Any, Callable, Iterator, Optional, Sequence

import torch
from torch.utils.checkpoint import checkpoint

PARTS = 4
LEAST_ROWS = 256
"""The MLP of a checkpointed layer is computed in `PARTS`, each of at least this many positions."""

Half = Callable[[torch.Tensor], torch.Tensor]


@contextlib.contextmanager
def training_layers(layers: Sequence[Any], rows: torch.Tensor) -> Iterator[None]:
    """Within the block, compute checkpointed layers in parts and the last of the `layers` only for `rows`.

    `rows` are positions in its flattened output (batch x length, size), which becomes a batch of one.
    """
    replaced = [layer for layer in layers if layer is layers[-1] or layer.gradient_checkpointing]
    forwards = [vars(layer).get("forward") for layer in replaced]
    for layer in replaced:
        layer.forward = types.MethodType(_forward(rows if layer is layers[-1] else None), layer)
    try:
        yield
    finally:
        for layer, forward in zip(replaced, forwards):
            del layer.forward
            if forward is not None:
                layer.forward = forward


def _forward(rows: Optional[torch.Tensor]) -> Any:
    def select(hidden: torch.Tensor) -> torch.Tensor:
        return hidden if rows is None else hidden.flatten(0, 1).index_select(0, rows)[None]

    def forward(layer: Any, hidden_states: torch.Tensor, *inputs: Any, **named: Any) -> torch.Tensor:
        """Compute the layer like the decoder layers of transformers 5.23 (phi4_multimodal, qwen2, llama, granite)."""
        attention, share = layer.self_attn, getattr(layer, "residual_multiplier", 1.0)

        def attend(hidden: torch.Tensor) -> torch.Tensor:
            selecting = attention.o_proj.register_forward_pre_hook(lambda module, inputs: (select(inputs[0]),))
            try:
                attended = attention(layer.input_layernorm(hidden), *inputs, **named)[0]
            finally:
                selecting.remove()
            return select(hidden) + _dropped(layer, "resid_attn_dropout", attended) * share

        def feed(hidden: torch.Tensor) -> torch.Tensor:
            made = layer.mlp(layer.post_attention_layernorm(hidden))
            return hidden + _dropped(layer, "resid_mlp_dropout", made) * share

        if layer.gradient_checkpointing and layer.training:
            return _checkpointed(attend, feed, hidden_states)
        return feed(attend(hidden_states))

    return forward


def _checkpointed(attend: Half, feed: Half, hidden: torch.Tensor) -> torch.Tensor:
    """Return `feed(attend(hidden))` and keep only `hidden` for the backward pass.

    `feed` is checkpointed within the checkpointed layer. Its inputs are recomputed by the layer, everything else by
    itself. So `feed` has nothing to do while the layer is recomputed.
    """
    recomputation = _Recomputation()

    def feed_once(part: torch.Tensor) -> torch.Tensor:
        return part if recomputation.is_active else feed(part)

    def both(hidden: torch.Tensor) -> torch.Tensor:
        attended = attend(hidden)
        rows = attended.flatten(0, 1)
        parts = rows.split(max(LEAST_ROWS, -(-len(rows) // PARTS)))
        return torch.cat([checkpoint(feed_once, part, use_reentrant=False) for part in parts]).view_as(attended)

    contexts = (contextlib.nullcontext(), recomputation)
    out: torch.Tensor = checkpoint(both, hidden, use_reentrant=False, context_fn=lambda: contexts)
    return out


class _Recomputation:
    """The context of a layer's recomputation. A graph that is retained enters it once for each backward pass."""

    is_active = False

    def __enter__(self) -> None:
        self.is_active = True

    def __exit__(self, *error: object) -> None:
        self.is_active = False


def _dropped(layer: Any, name: str, hidden: torch.Tensor) -> torch.Tensor:
    dropout: Optional[Any] = getattr(layer, name, None)
    return hidden if dropout is None else dropout(hidden)
