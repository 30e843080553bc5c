"""Names and values for bfloat16 in configs and command lines, and their float16 or float32 replacements."""

from __future__ import annotations

import re

COUNTERPARTS = {
    "bfloat16": "float16",
    "torch.bfloat16": "torch.float16",
    "bf16": "fp16",
    "BF16": "FP16",
    "bf16-mixed": "16-mixed",
    "bf16_mixed": "fp16_mixed",
    "bf16-true": "16-mixed",
}
"""`bf16-true` becomes `16-mixed`, because float16 training needs float32 weights and a loss scale."""
FULL = {"bfloat16": "float32", "torch.bfloat16": "torch.float32", "bf16": "fp32", "BF16": "FP32"}
NO_COUNTERPART = ("bf16_true",)
NO_COUNTERPART_WORDS = "bf16_true has no safe float16 equivalent, and the value for 16-mixed is unknown"

MEANS_PRECISION = re.compile(
    r"(?:.*[._-])?(?:(?:d|data|amp|autocast|torch)_?type|precision|amp_dtype|weights)", re.IGNORECASE
)
NEEDS_RANGE = re.compile(
    r"(?:.*[._-])?(?:reduce_?d?type|(?:reduc\w+|all_?reduce|comm(?:unication)?|(?:grad_)?accum\w*|main_(?:grad|param)s?"
    r"|momentum|variance|moments?|exp_avg(?:_sq)?|(?<!hidden_)states?|optim(?:izer)?(?:_states?)?|ema|master(?:_weights?)?"
    r"|compensation(?:_buffer)?|stat(?:istic)?s|loss|ns|newton_schulz|inv_freq)[_-]?(?:d_?type|data_type|precision))$",
    re.IGNORECASE,
)
"""Options for moments, averages, sums and losses: float16 overflows above 65504 and underflows below 6e-8."""
IS_BF16 = re.compile(r"(?:.*\.)?(?:(?:pure_)?bf16(?:_full_eval)?|bfloat16)")
LIKE_BF16 = re.compile(r"(?!no_|disable_|.*downcast)(?:.*[._])?(?:bf16|bfloat16)(?:_\w+)?")
"""Other switches, such as `use_bf16`. Such a switch is replaced only if its float16 counterpart exists."""
LIKE_FP16 = re.compile(r"(?:.*[._])?(?:fp16|float16)(?:_\w+)?")
IS_TF32 = re.compile(r"(?:.*[._-])?tf32")
ATTENTION = re.compile(r"(?:.*[._-])?_?attn_impl(?:ementation)?")
FLASH_SWITCH = re.compile(r"(?:.*[._-])?(?:use_flash(?:_attn|_attention(?:_2)?)?|flash_attention|flash_attn)")
NO_FLASH_SWITCH = re.compile(r"(?:.*[._-])?(?:disable|no)_flash_(?:attn|attention)_?2?")
FLASH_VALUE = re.compile(
    r"flash_attention_[23]|flash_attention|flash_attn(?:_[23])?|fa[23]|kernels-community/[\w.-]*flash[\w.-]*"
)
NEEDS_FLASH = re.compile(r"(?:.*[._-])?(?:padding_free|sample_packing|neat_packing)")

AUTO_DTYPE = re.compile(r"(?:.*[._-])?torch_dtype")
"""The dtype option of transformers. "auto" means the checkpoint's dtype: bfloat16 for most current models."""

NEEDLES = (b"torch_dtype", b"bf16", b"bfloat16", b"BF16", b"tf32", b"flash", b"attn", b"FLASH_ATT")
"""Every name and value above contains one of these words. A file without them is not parsed."""

WHY_RANGE = "the range of float16 is too small for sums and moments"
WHY_TF32 = "no TF32 on this card"
WHY_FLASH = "FlashAttention does not run on this card"
WHY_PACKING = "this setting needs FlashAttention, which does not run on this card"


def option(word: str) -> str:
    """Return a flag's name as spelled in configs: `attn_implementation` for `--attn-implementation`."""
    return word.lstrip("-+").replace("-", "_")


def counterpart_of(name: str, value: str) -> str | None:
    """Return the replacement for `value` if `name` selects a precision, or None if the value is not replaced."""
    if NEEDS_RANGE.fullmatch(name):
        return FULL.get(value)
    if not MEANS_PRECISION.fullmatch(name):
        return None
    if value == "auto" and AUTO_DTYPE.fullmatch(name):
        return "float16"
    if value == "bf16" and "trainer" in re.split(r"[./]", name):
        return "16"
    return COUNTERPARTS.get(value)


NO_TO_YES = {"false": "true", "no": "yes", "off": "on", "0": "1"}
YES_TO_NO = {yes: no for no, yes in NO_TO_YES.items()}


def is_true(value: str) -> bool:
    """Return True for `true`, `yes`, `on` and `1`, in any case."""
    return value.lower() in YES_TO_NO


def is_false(value: str) -> bool:
    """Return True for `false`, `no`, `off` and `0`, in any case."""
    return value.lower() in NO_TO_YES


def fp16_name(name: str) -> str:
    """Return the float16 name of a switch. `pure_bf16` becomes `fp16`, because pure float16 training is not safe."""
    for bf16, fp16 in (("pure_bf16", "fp16"), ("pure-bf16", "fp16"), ("bf16", "fp16"), ("bfloat16", "float16")):
        name = name.replace(bf16, fp16)
    return name


def renamed(switch: str, name: str) -> str:
    """Return the switch with its last component renamed: `--use-fp16` for `--pure-bf16` and `use_fp16`."""
    head = switch[: len(switch) - len(re.split(r"[.]", switch.lstrip("-+"))[-1])]
    return head + (name.replace("_", "-") if "-" in switch.lstrip("-+") else name)


def as_false(value: str) -> str:
    """Return the opposite of a true value, in the same notation: `no` for `yes`, `False` for `True`."""
    return _in_the_case_of(value, YES_TO_NO.get(value.lower(), "false"))


def as_true(value: str) -> str:
    """Return the opposite of a false value, in the same notation: `yes` for `no`, `True` for `False`."""
    return _in_the_case_of(value, NO_TO_YES.get(value.lower(), "true"))


def _in_the_case_of(value: str, word: str) -> str:
    if value.isupper():
        return word.upper()
    return word.capitalize() if value[:1].isupper() else word
