"""Turn `fused` off if Lightning clips gradients: in 16-mixed, Lightning cannot clip gradients of a fused optimizer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.code.draft import Draft
from fixers.frame.target import Target
from fixers.sources.expressions import tail_of, written
from fixers.sources.lines import holds, holds_any
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import OPTIMIZERS
from remote.policy.precision import BF16_FROM

FUSED = b"fused"
CLIPPING = (b"clip_gradients", b"configure_optimizers")
WORDS = (b"bf16-true", b"16-mixed")
"""Precisions that are mixed after all fixers have run: `bf16-to-fp16` replaces `bf16-true` with `16-mixed`."""
WHY = "in float16, Lightning cannot clip the gradients of a fused optimizer"


def may_be_fused(data: bytes) -> bool:
    """Return True if a text search finds `fused` and Lightning's gradient clipping in the file."""
    return holds(data, FUSED) and holds_any(data, CLIPPING)


def turn_off_fused(draft: Draft, target: Target) -> None:
    """Set `fused=False` in the optimizers of a file if Lightning clips gradients in mixed precision."""
    traits, source = target.code_facts.traits, draft.source
    mixed = traits.mixed or any(word in source.text for word in WORDS)
    if not (
        mixed
        and target.below(BF16_FROM)
        and (_fabric_clips(source) or (traits.clips and _defines_lightning_module(source)))
    ):
        return
    for value in _fused(source):
        if not (isinstance(value, ast.Constant) and not value.value):
            draft.replace(value, "False", WHY)


def _fabric_clips(source: PythonSource) -> bool:
    """Return True for `fabric.clip_gradients(...)`."""
    for call in source.names.of_type(ast.Call):
        match call.func:
            case ast.Attribute(attr="clip_gradients", value=owner):
                if written(source, owner).rpartition(".")[2] == "fabric":
                    return True
    return False


def _defines_lightning_module(source: PythonSource) -> bool:
    """Return True if a class of the file creates the optimizers of Lightning's Trainer."""
    return any(each.name == "configure_optimizers" for each in source.names.of_type(ast.FunctionDef))


def _fused(source: PythonSource) -> Iterator[ast.expr]:
    """Yield the value of `fused` in each call of an optimizer and in each dict of options."""
    for call in source.names.of_type(ast.Call):
        if OPTIMIZERS.match(tail_of(call)) or tail_of(call) == "dict":
            yield from (each.value for each in call.keywords if each.arg == "fused")
    for display in source.names.of_type(ast.Dict):
        for key, value in zip(display.keys, display.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "fused":
                yield value
