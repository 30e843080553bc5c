"""Every fixer there is, in the order in which they see a file: renames first, flips after them, inserted casts last."""

from __future__ import annotations

from fixers import (
    attention_to_sdpa,
    audio_backends,
    bf16_probe,
    bf16_to_fp16,
    compute_mode,
    data_collator,
    device_map,
    environment,
    flash_attention,
    hub_access,
    label_padding,
    launch_flags,
    local_rank,
    loss_fp32,
    mixed_precision_config,
    port,
    scaler_gate,
    shared_memory,
    stale_processes,
    tokenizer,
    trainable_fp32,
    trainer_arguments,
)
from fixers.site import Fixer
from fixers.source_fixer import SourceFixer

SOURCE_FIXERS: tuple[SourceFixer, ...] = (
    trainer_arguments,
    bf16_probe,
    bf16_to_fp16,
    mixed_precision_config,
    launch_flags,
    attention_to_sdpa,
    device_map,
    local_rank,
    port,
    label_padding,
    scaler_gate,
    loss_fp32,
    trainable_fp32,
)
SETUP_FIXERS: tuple[Fixer, ...] = (
    environment,
    audio_backends,
    hub_access,
    tokenizer,
    data_collator,
    stale_processes,
    compute_mode,
    flash_attention,
    shared_memory,
)
