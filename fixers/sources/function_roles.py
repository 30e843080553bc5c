"""Find functions that cast parameters to float32 or unscale gradients, and files that train only parts of a model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from fixers.sources.lines import holds, holds_any, in_order

SETS_DATA = re.compile(rb"\.data[ \t]*=")
CASTS = re.compile(rb"\.float\(\)|\.to\((?:(?!\.to\()[^\n)])*?float32")
"""Only the last `.to(` before `float32` counts: otherwise each one would be compared with the rest of the line."""
UNSCALES = re.compile(rb"\.unscale_?\w*\(")
FUNCTION = re.compile(rb"^[ \t]*def[ ]+(\w+)\((.*?)(?=^[ \t]*(?:def|class)[ ]|\Z)", re.MULTILINE | re.DOTALL)
ENGINE = re.compile(rb"\bdeepspeed\.initialize\(|(?<![\w.])(?<!class )(?:DeepSpeed(?:Hybrid)?|Pipeline)Engine\(")
TOP_LEVEL = re.compile(
    rb"^(?:class|(?:async[ ]+)?def)[ ]+(\w+)(.*?)(?=^(?:class|def|async[ ]+def|@)|\Z)", re.MULTILINE | re.DOTALL
)
TRAINS_OTHERWISE = re.compile(
    rb"GradScaler|DistributedDataParallel|\bDDP\(|FullyShardedDataParallel|\bFSDP\(|\.backward\(\)"
)
FREEZES = re.compile(rb"requires_grad_\(\s*False|requires_grad[ ]*=[ ]*False|get_peft_model")
FREEZING = (b"requires_grad", b"get_peft_model")
ADAPTERS = (b"peft", b"get_peft_config", b"LoraConfig", b"add_adapter", b"lora_r", b"use_lora", b"finetuning_type")
OPTIMIZERS = (b"Trainer", b"optim", b"optimizer")


def float_casters_in(source: bytes) -> Iterator[str]:
    """Yield the functions that cast trainable parameters to float32."""
    if holds(source, b"requires_grad") and casts_data(source):
        yield from (name for name, body in _functions(source) if b"requires_grad" in body and casts_data(body))


def casts_data(source: bytes) -> bool:
    """Return True if the code casts the data of a parameter to float32."""
    return b".data" in source and in_order(source, SETS_DATA, CASTS)


def unscalers_in(source: bytes) -> Iterator[str]:
    """Yield the functions that unscale gradients."""
    if holds(source, b"unscale"):
        yield from (name for name, body in _functions(source) if UNSCALES.search(body))


def engines_in(source: bytes, known: Collection[str] = ()) -> Iterator[str]:
    """Yield the functions and classes that create DeepSpeed's engine, or that use functions or classes in `known`.

    Code that may train without the engine is ignored: it has a loss scaler, another wrapper or a backward pass.
    """
    if not known and not holds(source, b"deepspeed"):
        return
    names = b"|".join(each.encode() for each in known)
    uses = re.compile(rb"(?<![\w.])(?<!def )(?<!class )(?:" + names + rb")\(") if known else ENGINE
    for name, body in TOP_LEVEL.findall(source):
        if uses.search(body) and not TRAINS_OTHERWISE.search(body):
            yield name.decode("ascii", "ignore")


def freezes(source: bytes) -> bool:
    """Return True if the code freezes parameters."""
    return holds_any(source, FREEZING) and FREEZES.search(source) is not None


def trains_parts(source: bytes) -> bool:
    """Return True if the file names adapters, or freezes parameters."""
    return names_adapters(source) or freezes(source)


def names_adapters(source: bytes) -> bool:
    """Return True if the file names adapters."""
    return holds_any(source, ADAPTERS)


def optimizes(source: bytes) -> bool:
    """Return True if the file names an optimizer or a trainer."""
    return holds_any(source, OPTIMIZERS)


def _functions(source: bytes) -> Iterator[tuple[str, bytes]]:
    yield from ((name.decode("ascii", "ignore"), body) for name, body in FUNCTION.findall(source))
