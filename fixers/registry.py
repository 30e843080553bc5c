"""Every fixer there is, in the order in which they see a file: renames first, flips after them, inserted casts last."""

from __future__ import annotations

from fixers import bf16_to_fp16, data_collator, tokenizer, trainable_fp32
from fixers.site import Fixer
from fixers.source_fixer import SourceFixer

SOURCE_FIXERS: tuple[SourceFixer, ...] = (bf16_to_fp16, trainable_fp32)
SETUP_FIXERS: tuple[Fixer, ...] = (tokenizer, data_collator)
