"""Find options that set the dtype of a model's weights in a program whose mixed precision may be off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from fixers.frame.change import FileChange
from fixers.plans.owners import Owners
from fixers.plans.programs import Program
from fixers.sources.splice import line_of

WEIGHT_DTYPE = re.compile(
    rb"\b(?:torch_)?dtype[ ]*=[ ]*(?:getattr\([ ]*torch,[ ]*)?"
    rb"(?:\w+\.)*(?:args|config|cfg|conf|hparams|params|opts?)\.(\w+)"
)
"""Matches `torch_dtype=args.data_type`."""
OPTIONAL = re.compile(rb"(?:^|[(,])[ \t]*fp16[ ]*=[ ]*(?!True\b|False\b)\w", re.MULTILINE)
"""Matches an argument of a Trainer whose mixed precision is an option."""
TRUE_WORD = b"bf16-true"
ASSIGNS = re.compile(rb"\bassign[ ]*=[ ]*True\b")
SELECTED = re.compile(rb"(\w+)[\"']?[ \t]*(?::[ \t]*str[ \t]*=|[:=])[ \t]*[\"']?(?:torch\.)?float16\b")


def half_weights(program: Program, own: Sequence[FileChange], read: Callable[[str], bytes]) -> str:
    """Return the option that selects float16 weights after the changes, or "" if there is none.

    The gradients of these weights are float16, and they are not scaled where mixed precision is off.
    """
    selected = {name for change in own for name in _selected(change)}
    if not selected:
        return ""
    sources = list(_sources(program, read))
    if not any(b"TrainingArguments(" in data and OPTIONAL.search(data) for data in sources):
        return ""
    named = {name for data in sources for name in WEIGHT_DTYPE.findall(data)}
    return min((name.decode() for name in named & selected), default="")


def assigned_weights(program: Program, own: Sequence[FileChange], owners: Owners) -> str:
    """Return the line that gives the weights the dtype of a checkpoint, if a change replaces Lightning's `bf16-true`.

    Return "" if there is none. `bf16-true` would cast these weights, but `16-mixed` does not.
    """
    if not any(TRUE_WORD in change.before and TRUE_WORD not in change.after for change in own):
        return ""
    for path, data in owners.texts:
        found = ASSIGNS.search(data) if path.endswith(".py") and b"load_state_dict" in data else None
        if found and program in (owners.of(path, data) or ()):
            return f"{path}:{line_of(data, found.start())}"
    return ""


def _selected(change: FileChange) -> Iterable[bytes]:
    """Yield the options that a changed line sets to float16."""
    before = set(change.before.splitlines())
    for line in change.after.splitlines():
        if line not in before and (found := SELECTED.search(line)):
            yield found[1]


def _sources(program: Program, read: Callable[[str], bytes]) -> Iterable[bytes]:
    for path in program.paths:
        with suppress(OSError):
            yield read(path)
