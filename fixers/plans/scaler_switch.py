"""Find loss scalers that a setting of the project keeps off: in float16, the gradients would underflow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import suppress

from fixers.plans.doubts import Doubt
from fixers.plans.owners import PYTHON, Owners
from fixers.plans.programs import Program
from fixers.sources.commands import reads_commands
from fixers.sources.expressions import tail_of
from fixers.sources.launched import is_document
from fixers.sources.python import TREES, PythonSource
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable

SCALER = re.compile(r"(?:Sharded)?GradScaler$")
OTHERS = (b"Accelerator(", b"TrainingArguments", b"deepspeed", b"lightning", b"Fabric(")
"""Libraries that scale the loss themselves."""
OF_SCALING = re.compile(r"scal(?:er|ing)", re.IGNORECASE)
VALUE = (
    rb"(?<![\w-])[\"']?(?:--)?%b[\"']?[ \t]*(?::[ \t]*bool[ \t]*)?"
    rb"(?:[:=][ \t]*[\"']?(?P<value>[Tt]rue|[Ff]alse)\b|,[^\n]*\bstore_(?P<off>true)\b)"
)
PASSED = rb"--%b(?![\w-])(?![ =]+[\"']?(?:[Ff]alse|0)\b)"
OFF = "{where} keeps the loss scaler off ({name})"
HINT = "set {name} to true there, then run the fixers again"


def of_scaler_switch(program: Program, owners: Owners) -> Iterator[Doubt]:
    """Yield a doubt if all loss scalers of the program depend on a setting that the project sets to false."""
    names: set[str] = set()
    for path in (module.path for module in program.modules):
        if owners.facts.of(path, _uses_library):
            return
        if owners.facts.of(path, _creates_scaler):
            with suppress(Unparsable):
                names |= _switches(TREES.read(path, owners.read(path)))
    if len(names) == 1 and OF_SCALING.search(name := names.pop()):
        yield from _off(name, program, owners)


def _uses_library(text: bytes) -> bool:
    return any(word in text for word in OTHERS)


def _creates_scaler(text: bytes) -> bool:
    return b"GradScaler(" in text


def _switches(source: PythonSource) -> set[str]:
    """Return the names that switch the scalers of the file on, with "" for a scaler that another condition creates."""
    calls = (each for each in source.names.of_type(ast.Call) if SCALER.match(tail_of(each)))
    return {_switch_of(source, each) for each in calls}


def _switch_of(source: PythonSource, call: ast.Call) -> str:
    enabled = next((_name(each.value) for each in call.keywords if each.arg == "enabled"), None)
    if enabled is not None:
        return enabled
    inner: ast.AST = call
    for above in source.names.ancestors(call):
        if isinstance(above, ast.If):
            return _name(above.test) if inner in above.body else ""
        inner = above
    return ""


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _off(name: str, program: Program, owners: Owners) -> Iterator[Doubt]:
    """Yield a doubt for the first place that sets the switch to false, unless another place may set it to true."""
    spelled = re.escape(name.encode()).replace(b"_", b"[_-]")
    value, passed = re.compile(VALUE % spelled), re.compile(PASSED % spelled)
    off = ""
    for path, text in owners.texts:
        if path.endswith(PYTHON) and path not in program.paths:
            continue
        if (reads_commands(path) or is_document(path)) and passed.search(text):
            return
        for found in value.finditer(text):
            if (found["value"] or b"").lower() == b"true":
                return
            off = off or f"{path}:{line_of(text, found.start())}"
    if off:
        yield Doubt(OFF.format(where=off, name=name), off, hint=HINT.format(name=name))
