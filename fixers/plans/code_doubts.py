"""Reasons against float16 in the code of a program: lines that raise an error for it, and an unscaled loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from posixpath import basename, splitext

from fixers.frame.modules import Module
from fixers.plans.doubts import Doubt
from fixers.plans.programs import Program
from fixers.sources.by_content import by_content
from fixers.sources.file_roles import SCALES
from fixers.sources.lines import LinePattern, holds, holds_any
from fixers.sources.splice import line_of

SCALES_SURELY = re.compile(
    rb"[sS]caler\b|\bAccelerator\(|TrainingArguments|deepspeed|\bFabric\(|lightning|loss_scale|scale_loss|\.scale\("
    rb"|\b(?:transformers|trl)\.\w*Trainer\b"
)
"""Matches code that scales a loss, or a library that does. A name such as `Trainer` may be a class of the project."""
BACKWARD = re.compile(rb"^[^#\n]*\.backward\([ ]*\)", re.MULTILINE)
MEGATRON = "megatron.core"
TRAINS_WITH_MEGATRON = re.compile(rb"\bget_megatron_optimizer\b|\bget_forward_backward_func\b")
"""Matches the optimizer of Megatron-core, which unscales gradients, and its schedules, which compute them."""
SCALES_IN_MEGATRON = LinePattern(
    re.compile(
        rb"^[^#\n]*(?:\bgrad_scale_func(?:[ \t]*=(?!=)|[\"'][ \t]*[:,])(?![ \t]*None\b)|\.scale_loss\()", re.MULTILINE
    ),
    (b"grad_scale_func", b".scale_loss("),
)
FUSED_BACKWARD = re.compile(rb"^[^#\n]*(?<!class )\b(?:Ada)?(?:Lomo|LOMO)\(", re.MULTILINE)
"""Matches an optimizer that updates weights during the backward pass, so that no engine scales its loss."""
LOOPS_OF_MEGATRON = (".pretrain", ".finetune")
"""Functions of Megatron-LM and Megatron Bridge that run the whole training and scale its loss."""


def of_code(program: Program, read: Callable[[str], bytes]) -> Iterator[Doubt]:
    """Yield the doubts about float16 that the program's code raises."""
    for module in program.modules:
        if module.float16_error_line:
            where = f"{module.path}:{module.float16_error_line}"
            yield Doubt(f"{where} raises an error for float16", where)
    if not any(module.scales for module in program.modules) or _has_only_own_trainers(program, read):
        yield Doubt("nothing in it scales the loss", program.entry)
    for path in (each.path for each in program.modules):
        text = _read(path, read)
        if holds_any(text, (b"Lomo(", b"LOMO(")) and (found := FUSED_BACKWARD.search(text)):
            where = f"{path}:{line_of(text, found.start())}"
            yield Doubt(f"{where} creates an optimizer that updates weights in the backward pass, unscaled", where)
    yield from _of_megatron(program, read)


def _has_only_own_trainers(program: Program, read: Callable[[str], bytes]) -> bool:
    """Return True if the program computes gradients itself, and only classes of its own look like scaling trainers.

    If a module scales the loss only in its planned form, a fixer adds the scaler.
    """
    texts = [_read(each.path, read) for each in program.modules]
    if any(each.scales and not SCALES.is_in(text) for each, text in zip(program.modules, texts, strict=True)):
        return False
    if any(map(_scales_surely, texts)) or not any(map(_computes_gradients, texts)):
        return False
    return not _imports_trainer(program)


@by_content
def _scales_surely(text: bytes) -> bool:
    return SCALES_SURELY.search(text) is not None


@by_content
def _computes_gradients(text: bytes) -> bool:
    return holds(text, b".backward(") and BACKWARD.search(text) is not None


def _imports_trainer(program: Program) -> bool:
    """Return True if the program imports a trainer from outside the project."""
    own = {each.path.partition("/")[0].removesuffix(".py") for each in program.modules}
    own |= {splitext(basename(each.path))[0] for each in program.modules}
    imported = (name for module in program.modules for name in module.imports if name.endswith("Trainer"))
    return any(not name.startswith(".") and name.partition(".")[0] not in own for name in imported)


def _of_megatron(program: Program, read: Callable[[str], bytes]) -> Iterator[Doubt]:
    """Yield a doubt if the program calls Megatron-core itself and sets no function that scales the loss."""
    users = [each for each in program.modules if any(name.startswith(MEGATRON) for name in each.imports)]
    if not users or any(_runs_megatron_loop(module) for module in program.modules):
        return
    texts = {each.path: _read(each.path, read) for each in program.modules}
    if any(SCALES_IN_MEGATRON.is_in(text) for text in texts.values()):
        return
    for path in (each.path for each in users):
        if found := TRAINS_WITH_MEGATRON.search(texts[path]):
            where = f"{path}:{line_of(texts[path], found.start())}"
            yield Doubt(f"{where} trains with {MEGATRON}, and nothing sets grad_scale_func to scale the loss", where)


def _runs_megatron_loop(module: Module) -> bool:
    return any(name.startswith("megatron.") and name.endswith(LOOPS_OF_MEGATRON) for name in module.imports)


def _read(path: str, read: Callable[[str], bytes]) -> bytes:
    with suppress(OSError):
        return read(path)
    return b""
