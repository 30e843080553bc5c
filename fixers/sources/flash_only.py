"""Find code that fails without FlashAttention: switches without an alternative, padding masks, patched classes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of
from fixers.sources.lines import holds, holds_any, lines_with
from fixers.sources.names import COMPREHENSIONS, FUNCTIONS, Scope
from fixers.sources.python import PythonSource
from remote.protocol.dataclass import dataclass

SWITCH = re.compile(r"(?:use_)?flash_?att(?:ention|n)(?:_2)?$|use_flash$")
NAMES_OF_SWITCHES = (b"flash_att", b"use_flash")
CHOOSES = re.compile(rb"\bif\b[^\n]*(?:flash|fused|fa2?\b)", re.IGNORECASE)
LAYER = re.compile(r"\w+(?:Decoder|Encoder)Layer$")
NAMES_SWITCH = re.compile(rb"""(?<![\w"'])(?:(?:use_)?flash_?att(?:ention|n)(?:_2)?|use_flash)[ ]*(?:[=:,)]|\n)""")
IMPORTS_LAYER = re.compile(rb"^[ \t]*from[ ]+transformers\b[^\n]*(?:\([^()]*)?(?:Decoder|Encoder)Layer\b", re.MULTILINE)
EXPANDS_MASK = re.compile(
    rb"4d|create_\w*mask|update_causal_mask|extended_attention_mask|expand_mask|prepare_\w*_mask|invert_attention_mask"
    rb"|\[:, *None, *None|\.unsqueeze\(1\)\.unsqueeze\(|is_causal"
)
"""Functions that create the four-dimensional mask that SDPA and eager attention expect."""
PATCHES_CLASS = re.compile(rb"FlashAttention2\b")
SETS_CAUSAL = re.compile(
    rb"[\w)\]](?<!\bself)(?<!\bcls)\.is_causal[ \t]*=(?!=)(?![ \t]*True[ \t\r]*(?:#|$))", re.MULTILINE
)
"""Matches assignments to the `is_causal` of an object other than self.

`self.is_causal` is common in transformers and harmless.
"""
OF_FLASH = re.compile(r"\w+FlashAttention2$")
MAKES_MASK = re.compile(
    rb"create_bidirectional_mask|\.(?:_update_causal_mask|_?create_causal_mask)[ \t]*=(?!=)"
    rb"|def[ ]+_update_causal_mask\b"
)
"""Matches code that replaces the causal mask: SDPA then gets a mask which agrees with `is_causal`."""
NOT_REPLACED = "FlashAttention is not replaced, although this card cannot run it: "
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
ASSIGNED_ONLY = "the branch without FlashAttention uses {name}, which only the FlashAttention branch assigns"
RAISES = "the branch without FlashAttention raises an error"
NOT_CAUSAL = (
    "is_causal of a layer is assigned here; SDPA ignores is_causal in a padded batch, because it gets a causal mask"
)
PATCHED = "a class of FlashAttention is required or replaced here"
SPLITS_SEQUENCES = "ring attention, which splits sequences over several cards, calls FlashAttention's kernels"
MASKED = "layers get a padding mask of two dimensions here, which only FlashAttention accepts"


@dataclass(frozen=True)
class FlashOnly:
    """A place that fails without FlashAttention, and the reason. `line`: 0 if it is not known.

    `switch`: the setting that selects the branch, or empty if the place is a layer that uses a named attention
    implementation. `chosen_here`: the file with the layer also selects the implementation.
    """

    path: str
    line: int
    why: str
    switch: str = ""
    chosen_here: bool = False

    def breaks(self, path: str, switch: str) -> bool:
        """Return True if the place fails when `switch` in the file `path` no longer selects FlashAttention."""
        return self.switch == switch if self.switch else (not self.chosen_here or self.path == path)

    @property
    def message(self) -> str:
        return f"{NOT_REPLACED}{self.why} ({self.path}{f':{self.line}' if self.line else ''})"


def may_contain_flash_only(data: bytes) -> bool:
    """Return True if the file may contain code that fails without FlashAttention, by a text search."""
    if holds_any(data, NAMES_OF_SWITCHES):
        lines = lines_with(data, NAMES_OF_SWITCHES)
        if NAMES_SWITCH.search(lines + b"\n") and CHOOSES.search(data):
            return True
    if SETS_CAUSAL.search(lines_with(data, (b"is_causal",))) or _patches_flash(data):
        return True
    if not holds(data, b"coderLayer") or not holds(data, b"attention_mask="):
        return False
    return IMPORTS_LAYER.search(data) is not None and not EXPANDS_MASK.search(data)


def _patches_flash(data: bytes) -> bool:
    """Return True if the text names FlashAttention classes and no SDPA classes."""
    return (
        not holds(data, b"SdpaAttention") and PATCHES_CLASS.search(lines_with(data, (b"FlashAttention2",))) is not None
    )


def find_flash_only(source: PythonSource) -> tuple[FlashOnly, ...]:
    """Return every place of the file that fails without FlashAttention."""
    return (*_broken_switches(source), *_masked_layers(source), *_not_causal(source), *_patches(source))


def _not_causal(source: PythonSource) -> Iterator[FlashOnly]:
    """Yield the first assignment such as `layer.self_attn.is_causal = False`, except to `self.is_causal`.

    A file that also replaces the mask does not count.
    """
    if MAKES_MASK.search(source.text):
        return
    for assignment in source.names.of_type(ast.Assign):
        match assignment:
            case ast.Assign(targets=[ast.Attribute(value=owner, attr="is_causal")], value=value):
                is_self = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
                if not is_self and not (isinstance(value, ast.Constant) and value.value is True):
                    here = b"attn_implementation" in source.text
                    yield FlashOnly(source.path, assignment.lineno, NOT_CAUSAL, chosen_here=here)
                    return


def _patches(source: PythonSource) -> Iterator[FlashOnly]:
    """Yield the first assertion or assignment that requires or replaces a FlashAttention class."""
    if not _patches_flash(source.text):
        return
    asserts = (each for each in source.names.of_type(ast.Assert) if _requires_flash(each.test))
    patches = (each for each in source.names.of_type(ast.Assign) if any(map(_is_of_flash, each.targets)))
    for statement in (*asserts, *patches):
        yield FlashOnly(source.path, statement.lineno, PATCHED)
        return


def _requires_flash(test: ast.expr) -> bool:
    calls = (each for each in ast.walk(test) if isinstance(each, ast.Call) and tail_of(each) == "isinstance")
    return any(OF_FLASH.match(_name_of(node)) for call in calls for node in ast.walk(call))


def _is_of_flash(target: ast.expr) -> bool:
    """Return True if the target belongs to a class of FlashAttention, such as `modeling.LlamaFlashAttention2`."""
    if not isinstance(target, ast.Attribute):
        return False
    return any(OF_FLASH.match(_name_of(each)) is not None for each in (target, target.value))


def _broken_switches(source: PythonSource) -> Iterator[FlashOnly]:
    holders = _holders(source)
    for branch in source.names.of_type(ast.If):
        found = _tested(holders, branch.test)
        why, at = _failure(source, branch, found[1]) if found else ("", 0)
        if found and why:
            yield FlashOnly(source.path, at, why, found[0])


def _holders(source: PythonSource) -> dict[str, str]:
    """Return each variable and attribute that stores a FlashAttention switch, with the name of the switch."""
    paths = (*source.names.of_type(ast.Name), *source.names.of_type(ast.Attribute), *source.names.of_type(ast.arg))
    holders = {name: name for name in map(_name_of, paths) if SWITCH.match(name)}
    for assignment in source.names.of_type(ast.Assign):
        held = next((name for name in _combined(assignment.value) if name in holders), None)
        holders |= {_name_of(target): holders[held] for target in assignment.targets if held and _name_of(target)}
    return holders


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else str(getattr(node, "attr", getattr(node, "arg", "")))


def _combined(value: ast.expr) -> list[str]:
    """Return the names in `switch`, `config.switch` and `switch and is_installed`."""
    parts = value.values if isinstance(value, ast.BoolOp) and isinstance(value.op, ast.And) else [value]
    return [_name_of(each) for each in parts if isinstance(each, (ast.Name, ast.Attribute))]


def _tested(holders: dict[str, str], test: ast.expr) -> tuple[str, bool] | None:
    """Return the switch that the test reads, and whether the body runs with FlashAttention, or None for other tests."""
    plain = _without_not(test)
    held = next((holders[name] for name in _combined(plain) if name in holders), None)
    return (held, plain is test) if held is not None else None


def _without_not(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test


def _failure(source: PythonSource, branch: ast.If, with_flash: bool) -> tuple[str, int]:
    """Return the reason and the line of a failure without FlashAttention.

    The reason is empty if no failure is found.
    """
    on, off = (branch.body, branch.orelse) if with_flash else (branch.orelse, branch.body)
    after = [] if off and isinstance(off[-1], LEAVES) else _following(source, branch)
    run = [*off, *after]
    is_other_branch = bool(off) or (bool(on) and isinstance(on[-1], LEAVES))
    if is_other_branch and run and isinstance(run[0], ast.Raise):
        return RAISES, run[0].lineno
    name = next(_unassigned(source, branch, on, run), None)
    return (ASSIGNED_ONLY.format(name=name.id), name.lineno) if name is not None else ("", 0)


def _following(source: PythonSource, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that follow this one in its block."""
    above = source.names.parent(statement)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(above, field, None)
        if isinstance(block, list) and statement in block:
            return block[block.index(statement) + 1 :]
    return []


def _unassigned(source: PythonSource, branch: ast.If, on: list[ast.stmt], run: list[ast.stmt]) -> Iterator[ast.Name]:
    """Yield the names that are read in `run` and assigned only in `on`."""
    scope = _function_scope(source, branch)
    if scope is None:
        return
    inside = {node for each in on for node in ast.walk(each)}
    test = source.segment(_without_not(branch.test))
    for name in (name for statement in run for name in _names_read(source, statement, test)):
        if _is_bound_only_in(source, name, scope, inside):
            yield name


def _names_read(source: PythonSource, node: ast.AST, test: str) -> Iterator[ast.Name]:
    """Yield the names that the code reads, except names in other branches with the same test."""
    if isinstance(node, ast.If) and source.segment(_without_not(node.test)) == test:
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _names_read(source, child, test)


def _function_scope(source: PythonSource, node: ast.AST) -> Scope | None:
    scope: Scope | None = source.names.scopes[node]
    return scope if scope is not None and isinstance(scope.node, FUNCTIONS) else None


def _is_bound_only_in(source: PythonSource, node: ast.Name, scope: Scope, inside: set[ast.AST]) -> bool:
    """Return True if the name is a local variable and every assignment to it is in `inside`."""
    here: Scope | None = source.names.scopes[node]
    while here is not None and here is not scope:
        if node.id in here.bindings or not isinstance(here.node, COMPREHENSIONS):
            return False
        here = here.parent
    bound = scope.bindings.get(node.id, [])
    stores = source.remember("stores", lambda: _stores(source)).get((scope.node, node.id), ())
    return bool(bound) and len(stores) == len(bound) and all(each in inside for each in stores)


def _stores(source: PythonSource) -> dict[tuple[ast.AST, str], list[ast.Name]]:
    """Return the assignments by function and name."""
    found: dict[tuple[ast.AST, str], list[ast.Name]] = {}
    for name in source.names.of_type(ast.Name):
        if not isinstance(name.ctx, ast.Load):
            found.setdefault((source.names.scopes[name].node, name.id), []).append(name)
    return found


def _masked_layers(source: PythonSource) -> Iterator[FlashOnly]:
    """Yield the first direct call of a transformers layer with a padding mask that no code expands."""
    if EXPANDS_MASK.search(source.text) or not any(_makes_layer(source, c) for c in source.names.of_type(ast.Call)):
        return
    for call in source.names.of_type(ast.Call):
        masks = [each.value for each in call.keywords if each.arg == "attention_mask"]
        if masks and not isinstance(masks[0], ast.Constant) and _is_layer(source, call.func):
            here = b"attn_implementation" in source.text
            yield FlashOnly(source.path, call.lineno, MASKED, chosen_here=here)
            return


def _makes_layer(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the call creates a transformers layer, or a subclass of one that this file defines."""
    meaning = source.names.meaning(call.func)
    if meaning is not None:
        return meaning.startswith("transformers.") and LAYER.search(meaning) is not None
    definitions = [each for each in source.names.of_type(ast.ClassDef) if each.name == tail_of(call)]
    bases = (source.names.meaning(base) or "" for each in definitions for base in each.bases)
    return any(base.startswith("transformers.") and LAYER.search(base) is not None for base in bases)


def _is_layer(source: PythonSource, function: ast.expr) -> bool:
    """Return True if the called object is a layer: a variable of a loop over layers, `self.layers[0]`, `self.layer`."""
    match function:
        case ast.Name(id=name):
            loops = (each for each in source.names.of_type(ast.For) if name in _names_in(each.target))
            return any("layer" in source.segment(each.iter).lower() for each in loops)
        case ast.Subscript(value=ast.Attribute(attr=name)) | ast.Attribute(attr=name):
            return "layer" in name.lower() or name == "blocks"
    return False


def _names_in(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}
