"""Every fixer there is, in the order in which they see a file: renames first, flips after them, inserted casts last."""

from __future__ import annotations

from fixers.code import (
    attention_to_sdpa,
    bf16_probe,
    bf16_to_fp16,
    device_map,
    label_padding,
    local_rank,
    loss_fp32,
    scaler_gate,
    trainable_fp32,
    trainer_arguments,
    trainer_resume,
)
from fixers.frame.site import Fixer
from fixers.frame.source_fixer import SourceFixer
from fixers.settings import launch_flags, mixed_precision_config, port
from fixers.setup import (
    audio_backends,
    compute_mode,
    data_collator,
    environment,
    flash_attention,
    hub_access,
    shared_memory,
    stale_processes,
    tokenizer,
)

SOURCE_FIXERS: tuple[SourceFixer, ...] = (
    trainer_arguments,
    trainer_resume,
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
