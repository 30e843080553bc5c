"""The attention mask of a training batch: None if causal attention suffices, otherwise one tensor for all layers."""

from __future__ import annotations

from typing import Optional

import torch

FLASH = (8, 0)
"""The lowest compute capability with a maskless kernel for grouped-query attention (torch 2.13, sdp_utils.cpp)."""


def training_mask(mask: Optional[torch.Tensor], ids: torch.Tensor, dtype: torch.dtype) -> Optional[torch.Tensor]:
    """Return the mask for rows `ids` (rows, length) that are padded on the right, or None for plain causal attention.

    A token never attends to the padding after it, so a mask of the padding (two dimensions) is dropped. A mask for each
    pair of tokens (rows, 1, length, length) becomes 0 and -inf in the attention's dtype; otherwise every layer would
    convert the boolean mask and keep the result for the backward pass.
    """
    if mask is None or mask.dim() == 2:
        if ids.device.type != "cuda" or torch.cuda.get_device_capability(ids.device) >= FLASH:
            return None
        length = ids.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool, device=ids.device).tril()[None, None]
    if torch.is_autocast_enabled(ids.device.type):
        dtype = torch.get_autocast_dtype(ids.device.type)
    return torch.zeros(mask.shape, dtype=dtype, device=ids.device).masked_fill(~mask, float("-inf"))
