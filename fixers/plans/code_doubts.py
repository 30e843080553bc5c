"""Reasons against float16 in the code of a program: lines that raise an error for it, and an unscaled loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import basename, splitext

from fixers.frame.findings import warning
from fixers.frame.modules import Module
from fixers.plans.doubts import Doubt
from fixers.plans.programs import Program
from fixers.plans.text_facts import TextFacts
from fixers.sources.file_roles import SCALES
from fixers.sources.lines import LinePattern
from fixers.sources.splice import line_of
from remote.protocol.findings import Finding

SCALES_SURELY = re.compile(
    rb"[sS]caler\b|\bAccelerator\(|TrainingArguments|deepspeed|\bFabric\(|lightning|loss_scale|scale_loss|\.scale\("
    rb"|\b(?:transformers|trl)\.\w*Trainer\b"
)
"""Matches code that scales a loss, or a library that does. A name such as `Trainer` may be a class of the project."""
BACKWARD = re.compile(rb"^[^#\n]*\.backward\([ ]*\)", re.MULTILINE)
SCALE = "scale the loss with torch.amp.GradScaler, then run the fixers again"
UNSCALED = "bfloat16 is not replaced: this loop keeps float32 master weights of its own and does not scale the loss"
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


def of_code(program: Program, facts: TextFacts) -> Iterator[Doubt]:
    """Yield the doubts about float16 that the program's code raises."""
    for module in program.modules:
        if module.float16_error_line:
            where = f"{module.path}:{module.float16_error_line}"
            yield Doubt(f"{where} raises an error for float16", where)
    if not any(module.scales for module in program.modules) or _has_only_own_trainers(program, facts):
        yield Doubt("nothing in it scales the loss", program.entry, hint=SCALE)
    for path in (each.path for each in program.modules):
        if line := facts.of(path, _line_of_fused_backward):
            where = f"{path}:{line}"
            yield Doubt(f"{where} creates an optimizer that updates weights in the backward pass, unscaled", where)
    yield from _of_megatron(program, facts)


def report_unscaled(path: str) -> Finding:
    """Return the warning about a loop whose float16 gradients would underflow."""
    return warning("bf16-to-fp16", UNSCALED, path, SCALE)


def _line_of_fused_backward(text: bytes) -> int:
    """Return the line that creates an optimizer which updates weights in the backward pass, or 0."""
    found = FUSED_BACKWARD.search(text) if b"omo(" in text or b"OMO(" in text else None
    return line_of(text, found.start()) if found else 0


def _has_only_own_trainers(program: Program, facts: TextFacts) -> bool:
    """Return True if the program computes gradients itself, and only classes of its own look like scaling trainers.

    If a module scales the loss only in its planned form, a fixer adds the scaler.
    """
    paths = [each.path for each in program.modules]
    if any(each.scales and not facts.of(each.path, _scales) for each in program.modules):
        return False
    if any(facts.of(path, _scales_surely) for path in paths):
        return False
    if not any(facts.of(path, _computes_gradients) for path in paths):
        return False
    return not _imports_trainer(program)


def _scales(text: bytes) -> bool:
    return SCALES.is_in(text)


def _scales_surely(text: bytes) -> bool:
    return SCALES_SURELY.search(text) is not None


def _computes_gradients(text: bytes) -> bool:
    return b".backward(" in text and BACKWARD.search(text) is not None


def _imports_trainer(program: Program) -> bool:
    """Return True if the program imports a trainer from outside the project."""
    own = {each.path.partition("/")[0].removesuffix(".py") for each in program.modules}
    own |= {splitext(basename(each.path))[0] for each in program.modules}
    imported = (name for module in program.modules for name in module.imports if name.endswith("Trainer"))
    return any(not name.startswith(".") and name.partition(".")[0] not in own for name in imported)


def _of_megatron(program: Program, facts: TextFacts) -> Iterator[Doubt]:
    """Yield a doubt if the program calls Megatron-core itself and sets no function that scales the loss."""
    naming = (each for each in program.modules if facts.of(each.path, _names_megatron))
    users = [each for each in naming if any(name.startswith(MEGATRON) for name in each.imports)]
    if not users or any(_runs_megatron_loop(module) for module in program.modules):
        return
    if any(facts.of(each.path, _scales_in_megatron) for each in program.modules):
        return
    for path in (each.path for each in users):
        if line := facts.of(path, _line_with_megatron):
            where = f"{path}:{line}"
            yield Doubt(f"{where} trains with {MEGATRON}, and nothing sets grad_scale_func to scale the loss", where)


def _names_megatron(text: bytes) -> bool:
    return b"megatron" in text


def _scales_in_megatron(text: bytes) -> bool:
    return SCALES_IN_MEGATRON.is_in(text)


def _line_with_megatron(text: bytes) -> int:
    """Return the line that trains with Megatron-core, or 0."""
    found = TRAINS_WITH_MEGATRON.search(text)
    return line_of(text, found.start()) if found else 0


def _runs_megatron_loop(module: Module) -> bool:
    return any(name.startswith("megatron.") and name.endswith(LOOPS_OF_MEGATRON) for name in module.imports)
