"""LoRA layers that read and write their large outputs fewer times than PEFT's."""

from __future__ import annotations

import types
from typing import Any

import torch
from peft.tuners.lora import Linear
from torch.nn.functional import linear


def fuse_lora(model: Any) -> Any:
    """Patch the LoRA layers of a PEFT model so that the adapter's output is added in place; return `model`.

    PEFT computes base + scaling * B(A(dropout(x))). Scaling and adding are two more passes over tensors of the size of
    the layer's output, which is much larger than the output of A. Here, `addmm_` adds the base layer's product to the
    adapter's output. The base layer comes last, because the recomputation of a checkpointed layer can then stop before
    the last matrix product of that layer, whose result the backward pass does not need. This product is a quarter of
    the layer's work. PEFT also copies x to float32, the dtype of the adapter, and autocast casts the copy back. Here, x
    is not copied. PEFT's own forward still handles all other cases: disabled, merged or several adapters, variants such
    as DoRA, and mixed dtypes without autocast.
    """
    for module in model.modules():
        if type(module) is Linear and type(module.base_layer) is torch.nn.Linear:
            module.forward = types.MethodType(_forward, module)
    return model


def _forward(layer: Any, x: torch.Tensor, *inputs: Any, **named: Any) -> torch.Tensor:
    name = _only_adapter(layer)
    if name is None or inputs or named or not _same_dtype(layer, name, x):
        plain: torch.Tensor = Linear.forward(layer, x, *inputs, **named)
        return plain
    rows, base = x.flatten(0, -2), layer.base_layer
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    small = layer.lora_A[name](layer.lora_dropout[name](rows)).to(dtype) * layer.scaling[name]
    out = linear(small, layer.lora_B[name].weight.to(dtype), base.bias)
    out.addmm_(rows.to(dtype), base.weight.to(dtype).t())
    return out.view(*x.shape[:-1], out.shape[-1])


def _only_adapter(layer: Any) -> Any:
    """Return the name of the layer's only adapter if it is plain LoRA, active and not merged, otherwise None."""
    if layer.disable_adapters or layer.merged or len(layer.active_adapters) != 1:
        return None
    name = layer.active_adapters[0]
    plain = name in layer.lora_A and name not in layer.lora_variant and layer.lora_B[name].bias is None
    return name if plain else None


def _same_dtype(layer: Any, name: str, x: torch.Tensor) -> bool:
    return torch.is_autocast_enabled(x.device.type) or bool(x.dtype == layer.lora_A[name].weight.dtype)
