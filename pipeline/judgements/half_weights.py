"""Find float16 weights that the project trains with neither autocast nor a loss scale."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

from fixers.frame.change import Plan
from fixers.frame.fixed_tree import as_planned
from fixers.frame.site import Site, Tree
from fixers.sources.chosen_words import constant_of
from fixers.sources.copied_libraries import library_copies
from fixers.sources.expressions import tail_of
from fixers.sources.float_casts import is_cast
from fixers.sources.lines import strings_of_notebook
from fixers.sources.modules import Modules
from fixers.sources.options import name_of_entry
from fixers.sources.python import PythonSource
from fixers.sources.training_setup import consumers_of
from pipeline.judgements.half_models import half_origin, options_across
from remote.policy.precision import supports_bf16
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

NOT_MIXED = ("fp16-pure", "fp32")
CHECK = "half-without-scaler"
HALF = re.compile(rb"float16|\.half\(\)")
TRAINS = re.compile(rb"Trainer\(|\.backward\(")
MIXES = re.compile(
    rb"autocast|GradScaler|Accelerator\(|accelerate|deepspeed|lightning|Fabric\(|\bapex\b|scale_loss|\bjax\b|tensorflow"
)
SETS_MIXED = re.compile(rb"\.(?:fp16|bf16)\s*=\s*(?!False)|ACCELERATE_MIXED_PRECISION")
LAUNCHED_MIXED = re.compile(rb"mixed[_-]precision[\"']?(?:\s*[=:]\s*|\s+)[\"']?(?:fp|bf)16", re.IGNORECASE)
LAUNCHES = (".sh", ".yaml", ".yml", ".json", ".toml", ".slurm", ".sbatch", "makefile", "dockerfile", ".env")
ARGUMENTS = re.compile(r"transformers\.(?:\w+\.)*\w*TrainingArguments$")
FREEZES = re.compile(rb"peft|requires_grad_?\b\W{1,3}False|lora", re.IGNORECASE)
SWITCHES = ("fp16", "bf16")
MAY_MIX = (*SWITCHES, "deepspeed", "accelerator_config", "fsdp", "half_precision_backend")
MESSAGE = "float16 weights ({origin}) are trained with neither autocast nor a loss scale: small gradients become zero"
OFF_HINT = "fp16=True; pipeline fix --only trainable-fp32"
LOOP_HINT = 'torch.autocast("cuda", dtype=torch.float16), and scaler = torch.amp.GradScaler("cuda")'


def judge_after_fixes(site: Site, plan: Plan) -> tuple[Finding, ...]:
    """Return the findings that remain after the fixers. Cards with native bfloat16 have none."""
    if site.gpu is None or supports_bf16(site.gpu.capability) or site.config.get("precision") in NOT_MIXED:
        return ()
    return judge_half_weights(as_planned(site.tree, plan))


def judge_half_weights(tree: Tree) -> tuple[Finding, ...]:
    """Return a finding for every trained float16 model without mixed precision.

    The finding is an error if the code turns mixed precision off, and a warning if no code turns it on. One text at a
    time is kept, because all files together may be larger than the memory.
    """
    paths = tuple(sorted(tree.paths()))
    copies = library_copies(paths)
    known: list[str] = []
    training: list[str] = []
    has_half = False
    for path in paths:
        text = _text_of(tree, path) if path.endswith((".py", ".ipynb")) and not path.startswith(copies) else b""
        known += [path] if text else []
        training += [path] if TRAINS.search(text) else []
        has_half = has_half or HALF.search(text) is not None
    if not has_half or _launched_mixed(tree, paths):
        return ()
    modules = Modules(known, tree.read)
    found: list[Finding] = []
    for path in training:
        source = modules.source(path)
        if source is not None:
            found += _judge_file(modules, source)
    return tuple(found)


def _launched_mixed(tree: Tree, paths: tuple[str, ...]) -> bool:
    """Return True if a script or a config of the project starts training in mixed precision."""
    return any(path.lower().endswith(LAUNCHES) and LAUNCHED_MIXED.search(_text_of(tree, path)) for path in paths)


def _text_of(tree: Tree, path: str) -> bytes:
    """Return the content of a file, or b"" if it cannot be read or is too large: the plan reports that."""
    with suppress(OSError):
        data = tree.read(path)
        return strings_of_notebook(data) if path.endswith(".ipynb") else data
    return b""


def _judge_file(modules: Modules, source: PythonSource) -> Iterator[Finding]:
    if SETS_MIXED.search(source.text):
        return
    for consumer in consumers_of(source):
        origin = half_origin(modules, source, consumer.owner) if consumer.owner else None
        if origin is None:
            continue
        if consumer.trainer:
            yield from _judge_arguments(modules, source, origin)
        elif _is_plain(modules, source) and not _trains_float32(modules, source, consumer.owner):
            yield _finding(Severity.WARNING, origin, source.where(consumer.call), LOOP_HINT)
        return


def _is_plain(modules: Modules, source: PythonSource) -> bool:
    """Return True if the file has a custom training loop, and neither the file nor its imports use mixed precision."""
    called = {tail_of(call) for call in source.names.of_type(ast.Call)}
    return {"backward", "step"} <= called and not any(MIXES.search(each.text) for each in modules.reached(source))


def _trains_float32(modules: Modules, source: PythonSource, owner: str) -> bool:
    """Return True if a loop casts every parameter of the model to float32, and no imported file freezes parameters."""
    casts = any(is_cast(source, each, owner) for each in source.names.of_type(ast.For))
    return casts and not any(FREEZES.search(each.text) for each in modules.reached(source))


def _judge_arguments(modules: Modules, source: PythonSource, origin: str) -> Iterator[Finding]:
    for call in source.names.of_type(ast.Call):
        given = _arguments(modules, source, call) if ARGUMENTS.match(source.names.meaning(call.func) or "") else None
        precision_arguments = [each for each in given or () if each[1] in MAY_MIX]
        if given is None or any(constant_of(value) not in (False, None) for _, _, value in precision_arguments):
            continue
        off = [
            held.where(value)
            for held, name, value in precision_arguments
            if name in SWITCHES and constant_of(value) is False
        ]
        severity = Severity.ERROR if off else Severity.WARNING
        yield _finding(severity, origin, off[0] if off else source.where(call), OFF_HINT)


def _arguments(
    modules: Modules, source: PythonSource, call: ast.Call
) -> list[tuple[PythonSource, object, ast.expr]] | None:
    """Return the file, name and value of every keyword argument, including `**options`, or None if some are unknown."""
    given: list[tuple[PythonSource, object, ast.expr]] = []
    for keyword in call.keywords:
        if keyword.arg is not None:
            given.append((source, keyword.arg, keyword.value))
            continue
        entries = [
            (held, name_of_entry(key), value) for held, key, value in options_across(modules, source, keyword.value)
        ]
        if not entries:
            return None
        given += entries
    return given


def _finding(severity: Severity, origin: str, where: str, hint: str) -> Finding:
    code = ExitCode.PRECISION if severity is Severity.ERROR else ExitCode.OK
    return Finding(CHECK, severity, MESSAGE.format(origin=origin), where, hint, code)
