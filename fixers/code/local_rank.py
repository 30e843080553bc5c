"""local-rank: processes select their card by LOCAL_RANK instead of RANK.

What it does
    Uses `LOCAL_RANK` instead of `RANK` (from the environment or `get_rank()`) where the rank selects a device: in
    `set_device`, `torch.device`, `.to`, `.cuda`, `device_ids`, `output_device`, `device_map` or `f"cuda:{rank}"`. Other
    uses of the same variable are not changed. A file is changed only in one of these cases:

    * It belongs to a script that a command of the project starts on several machines (`--nnodes 2`, `--nnodes $NNODES`
      without a default of 1, `srun`).
    * It belongs to the script in the `command:` of the halfstep config, because halfstep may start this script on
      several hosts.

    For other files, there is a warning. If commands of the project start processes on one machine and none on several,
    there is no warning, and `pipeline fix -v` lists the files instead.

Why
    RANK counts over all machines. On the second machine it selects cards that do not exist: `invalid device ordinal`.

Before
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)

After
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))

What it can break
    A launcher that sets RANK and not LOCAL_RANK. torchrun, Accelerate and halfstep set both.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.code.draft import Draft
from fixers.frame.change import SkippedPlace
from fixers.frame.findings import warning
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of, rewritten_literal
from fixers.sources.expressions import tail_of
from fixers.sources.imports import imported
from fixers.sources.launched import ONE, SEVERAL
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source

name = "local-rank"
safety = "safe"
needles = (b"RANK", b"get_rank")
below = None
requires: tuple[str, ...] = ()
matches = reads_python

DEVICE_CALLS = frozenset({"set_device", "device", "to", "cuda"})
DEVICE_KEYWORDS = frozenset({"device_ids", "output_device", "device_id", "device_map", "device", "device_index"})
GLOBAL_RANKS = ("torch.distributed.get_rank",)
ONE_MACHINE = "RANK selects the card, but no command starts this code on several machines"
UNDECIDED = "RANK selects the card, which fails on a second machine; no command starts this code on several machines"
HINT = 'int(os.environ["LOCAL_RANK"])'
WHY = "RANK counts over all machines; LOCAL_RANK selects the device"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that select devices by LOCAL_RANK."""
    if b"cuda" not in source.searched and b"device" not in source.searched:
        return NOTHING
    draft = Draft(source.python, name)
    for node in draft.source.names.nodes:
        if isinstance(node, ast.expr) and _is_device(draft.source, node):
            _judge(draft, node)
    running = target.code_facts.on_machines
    if not draft.edits or running is None or source.path in running:
        return draft.rewrite
    launched = {each.machines for each in target.code_facts.traits.launched}
    if ONE in launched and SEVERAL not in launched:
        return Rewrite(skipped=(SkippedPlace(source.path, ONE_MACHINE),))
    place = next(each for each in draft.edits if each.expected)
    return Rewrite(findings=(warning(name, UNDECIDED, source.where(place.start), HINT),))


def _is_device(source: PythonSource, node: ast.expr) -> bool:
    """Return True if the expression is a device: an argument of a device call, or the index after `cuda:`."""
    above = source.names.parent(node)
    if isinstance(above, (ast.List, ast.Dict)):
        above = source.names.parent(above)
    match above:
        case ast.keyword(arg=str(argument)):
            return argument in DEVICE_KEYWORDS
        case ast.Call() if node in above.args and tail_of(above) in DEVICE_CALLS:
            return tail_of(above) != "device" or source.names.meaning(above.func) == "torch.device"
        case ast.FormattedValue():
            return _is_device_name(source, above)
    return False


def _is_device_name(source: PythonSource, value: ast.FormattedValue) -> bool:
    """Return True for the rank in `f"cuda:{rank}"`."""
    text = source.names.parent(value)
    if not isinstance(text, ast.JoinedStr) or len(text.values) != 2 or text.values[1] is not value:
        return False
    return constant_of(text.values[0]) == "cuda:"


def _judge(draft: Draft, node: ast.expr) -> None:
    if isinstance(node, ast.Name):
        values = list(_values(draft.source, node))
        origins = [_global_rank(draft.source, value) for value in values]
        if values and all(origin is not None for origin in origins):
            _replace(draft, node, origins[-1] or "")
        return
    word = _rank_word(draft.source, node)
    if word is not None:
        literal = rewritten_literal(draft.source, word, "LOCAL_RANK")
        if literal is not None:
            draft.edits.append(draft.source.replace_node(word, literal, WHY))
    elif isinstance(node, ast.Call) and draft.source.names.meaning(node.func) in GLOBAL_RANKS:
        _replace(draft, node, "")


def _values(source: PythonSource, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the values assigned to the name in its scope.

    The scope is the function if the function binds the name, otherwise the module.
    """
    for node in source.names.of_type(ast.Assign):
        for target, value in _pairs(node):
            if isinstance(target, ast.Name) and target.id == name.id and _is_in_scope_of(source, node, name):
                yield value


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _is_in_scope_of(source: PythonSource, node: ast.Assign, name: ast.Name) -> bool:
    function = source.names.function(name)
    if name.id in source.names.scopes[name].bindings:
        return source.names.function(node) is function
    return source.names.function(node) is source.tree


def _global_rank(source: PythonSource, value: ast.expr) -> str | None:
    """Return the expression with LOCAL_RANK instead of RANK.

    Return "" for `get_rank()`, and None if the value is not the global rank.
    """
    if isinstance(value, ast.Call) and source.names.meaning(value.func) in GLOBAL_RANKS:
        return ""
    word = _rank_word(source, value)
    literal = rewritten_literal(source, word, "LOCAL_RANK") if word is not None else None
    if word is None or literal is None:
        return None
    start, end = source.span(value)
    first, last = source.span(word)
    return (source.text[start:first] + literal.encode() + source.text[last:end]).decode("utf-8")


def _rank_word(source: PythonSource, value: ast.expr) -> ast.Constant | None:
    """Return the `"RANK"` in `int(os.environ["RANK"])`, `os.environ.get("RANK", 0)` or `os.getenv("RANK")`, or None."""
    inner = value.args[0] if isinstance(value, ast.Call) and tail_of(value) == "int" and value.args else value
    word: ast.expr | None = None
    if isinstance(inner, ast.Subscript) and source.names.meaning(inner.value) == "os.environ":
        word = inner.slice
    elif isinstance(inner, ast.Call) and source.names.meaning(inner.func) in ("os.environ.get", "os.getenv"):
        word = inner.args[0] if inner.args else None
    return word if isinstance(word, ast.Constant) and word.value == "RANK" else None


def _replace(draft: Draft, node: ast.expr, written: str) -> None:
    local = _local_rank_variable(draft.source, node)
    if local is not None:
        draft.edits.append(draft.source.replace_node(node, local, WHY))
        return
    quote = draft.source.quote_for(node)
    os = imported(draft.source, "os", WHY) if not written else None
    if quote is None or (os is None and not written):
        draft.warn(node, WHY, hint=HINT)
        return
    if os is not None:
        draft.edits += [edit for edit in os.edits if edit not in draft.edits]
        written = f'int({os.name}.environ["LOCAL_RANK"])'
    draft.edits.append(draft.source.replace_node(node, re.sub("[\"']", quote, written), WHY))


def _local_rank_variable(source: PythonSource, node: ast.expr) -> str | None:
    """Return a variable named local_rank that is assigned before the node, or None."""
    function = source.names.function(node)
    for name in source.names.of_type(ast.Name):
        visible = source.names.function(name) in (function, source.tree) and name.lineno < node.lineno
        if visible and name.id == "local_rank" and isinstance(name.ctx, ast.Store):
            return name.id
    return None
