"""How a project's own Python code attends, scales its loss and copies its settings, judged by its text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from posixpath import basename, dirname

from fixers.sources.lines import lines_with
from fixers.sources.readers.reader import Overwritten
from fixers.sources.splice import line_of

FLASH_WORDS = (b"flash_att", b"attn_implementation", b"kernels-community/")
RUNS_FLASH = re.compile(
    rb"^[ \t]*(?:from|import)[ \t]+flash_attn|flash_attention_[23]|attn_implementation|kernels-community/", re.MULTILINE
)
SDPA = (b"scaled_dot_product_attention", b"sdp_kernel", b"sdpa_kernel")
SWITCH = rb"(?:\w+\.)*(\w+)\.(\w*fp16\w*)"
COPIED = re.compile(rb"^[ \t]*" + SWITCH + rb"[ \t]*=[ \t]*" + SWITCH + rb"[ \t]*(?:#[^\n]*)?\r?$", re.MULTILINE)
CASTS_GRADIENTS = re.compile(rb"\.grad[ \t]*=[ \t]*[\w.]+\.grad\.(?:to|float)\(")
SCALES = (
    *(b"GradScaler", b"Accelerator(", b"Trainer(", b"TrainingArguments", b"deepspeed", b"Fabric("),
    *(b"lightning", b"loss_scale", b"scale_loss"),
)
PURE = re.compile(rb"^[^#\n]*?(\w*)[.]?\bpure_bf16[\"']?[ \t]*[=:][ \t]*[\"']?[Tt]rue\b", re.MULTILINE)
HOLDS_SCRIPTS = ("scripts", "script", "conf", "config", "configs", "sh", "bash", "launch")


@dataclass(frozen=True)
class Traits:
    """`flash`: the code imports or selects FlashAttention. `sdpa`: it calls PyTorch's own attention.

    `overwritten` are the float16 switches that the code overwrites. `master_loops` are files that cast gradients for
    float32 master weights of their own. `scales`: the code scales a loss, or uses a library that does.
    `pure`: the objects on which commands and configs switch `pure_bf16` on, each with the folder of that file.
    """

    flash: bool = False
    sdpa: bool = False
    overwritten: tuple[Overwritten, ...] = ()
    master_loops: tuple[str, ...] = ()
    scales: bool = False
    pure: tuple[tuple[str, str], ...] = ()

    @property
    def flash_is_sdpa(self) -> bool:
        """True if a switch for FlashAttention can only select PyTorch's own attention, which runs on every card."""
        return self.sdpa and not self.flash

    @property
    def unscaled_loops(self) -> tuple[str, ...]:
        """The loops with master weights of their own in a project that never scales a loss."""
        return () if self.scales else self.master_loops


def traits_of(path: str, source: bytes) -> Traits:
    """Return the traits of one Python file."""
    flash = RUNS_FLASH.search(lines_with(source, FLASH_WORDS)) is not None
    sdpa = any(word in source for word in SDPA)
    copied = COPIED.finditer(source) if COPIED.search(lines_with(source, (b"fp16",))) else ()
    overwritten = tuple(
        Overwritten(each[1].decode(), each[2].decode(), f"{path}:{line_of(source, each.start(1))}") for each in copied
    )
    master = (path,) if b".grad" in source and CASTS_GRADIENTS.search(source) else ()
    return Traits(flash, sdpa, overwritten, master, any(word in source for word in SCALES))


def traits_of_text(path: str, data: bytes) -> Traits:
    """Return the traits of a config or a file of commands."""
    asked = {each[1].decode() for each in PURE.finditer(data)} if b"pure_bf16" in data else set()
    return Traits(pure=tuple((owner, _home(path)) for owner in sorted(asked)))


def _home(path: str) -> str:
    """Return the folder that a script or config belongs to: the one above `scripts/` and the like."""
    folder = dirname(path)
    while basename(folder) in HOLDS_SCRIPTS:
        folder = dirname(folder)
    return folder


def merge_traits(parts: Iterable[Traits]) -> Traits:
    """Return the traits of several files together."""
    held = list(parts)
    return Traits(
        any(each.flash for each in held),
        any(each.sdpa for each in held),
        tuple(one for each in held for one in each.overwritten),
        tuple(one for each in held for one in each.master_loops),
        any(each.scales for each in held),
        tuple(sorted({one for each in held for one in each.pure})),
    )
