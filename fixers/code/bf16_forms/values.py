"""Edit uses of `torch.bfloat16`, under any alias, and of `.bfloat16()`."""

from __future__ import annotations

import ast

from fixers.code.bf16_forms.exclusions import Verdict, judge_place
from fixers.code.bf16_forms.wide_range import needs_range
from fixers.code.draft import Draft
from fixers.frame.source_fixer import NO_BFLOAT16
from fixers.settings.precision_words import WHY_RANGE
from fixers.sources.imports import name_of
from fixers.sources.names import Rebound

BFLOAT16 = "torch.bfloat16"


def replace_values(draft: Draft) -> None:
    """Replace `torch.bfloat16` and `.bfloat16()` wherever they select a dtype, and change the imports of bfloat16."""
    for attribute in draft.source.names.of_type(ast.Attribute):
        if attribute.attr == "bfloat16":
            _judge_attribute(draft, attribute)
    _judge_names(draft)
    _judge_starred(draft)


def _judge_names(draft: Draft) -> None:
    """Replace names imported from torch, then change their imports."""
    imported = _imported_as(draft)
    acted: dict[str, list[ast.Name]] = {}
    left: set[str] = set()
    for name in draft.source.names.of_type(ast.Name) if imported else ():
        if name.id not in imported or not isinstance(name.ctx, ast.Load):
            continue
        meaning = draft.source.names.look_up(name)
        if meaning == Rebound(BFLOAT16):
            _warn_rebound(draft, name, name.id)
        elif meaning != BFLOAT16:
            continue
        elif not _may_act(draft, name):
            left.add(name.id)
        elif not _needs_range(draft, name):
            _rename(draft, name)
            acted.setdefault(name.id, []).append(name)
        elif not _widen(draft, name):
            left.add(name.id)
    _rename_imports(draft, acted, left)


def _imported_as(draft: Draft) -> frozenset[str]:
    imports = draft.source.names.of_type(ast.ImportFrom)
    aliases = (alias for each in imports if each.module == "torch" for alias in each.names)
    return frozenset(alias.asname or alias.name for alias in aliases if alias.name == "bfloat16")


def _judge_starred(draft: Draft) -> None:
    """Replace the name bfloat16 after `from torch import *`, unless the file binds it."""
    names = draft.source.names
    imports = (each for each in names.of_type(ast.ImportFrom) if each.module == "torch" and not each.level)
    if not any(alias.name == "*" for each in imports for alias in each.names):
        return
    if any(name in scope.bindings for scope in names.scopes.values() for name in ("bfloat16", "float16")):
        return
    for node in names.of_type(ast.Name):
        if node.id == "bfloat16" and _may_act(draft, node):
            to_float32 = needs_range(draft.source, node)
            draft.replace(node, *(("float32", WHY_RANGE) if to_float32 else ("float16", NO_BFLOAT16)))


def _judge_attribute(draft: Draft, node: ast.Attribute) -> None:
    source = draft.source
    meaning = source.names.look_up(node)
    if meaning == BFLOAT16 and isinstance(node.ctx, ast.Load):
        if _may_act(draft, node):
            to_float32 = _needs_range(draft, node) or _widen_uses(draft, node)
            wanted, why = ("float32", WHY_RANGE) if to_float32 else ("float16", NO_BFLOAT16)
            draft.edits.append(source.replace_attribute(node, wanted, why))
    elif meaning == Rebound(BFLOAT16):
        _warn_rebound(draft, node, source.segment(node.value))
    elif not isinstance(meaning, (str, Rebound)) and _is_cast(draft, node) and _may_act(draft, node):
        wanted, why = ("float", WHY_RANGE) if needs_range(source, node) else ("half", NO_BFLOAT16)
        draft.edits.append(source.replace_attribute(node, wanted, why))


def _is_cast(draft: Draft, node: ast.Attribute) -> bool:
    """Return True for `anything.bfloat16()`."""
    call = draft.source.names.parent(node)
    return isinstance(call, ast.Call) and call.func is node and not call.args and not call.keywords


def _rename(draft: Draft, node: ast.Name) -> None:
    """Rename a name imported from torch. For an alias, only the import changes."""
    if node.id not in _aliases(draft):
        draft.edits.append(draft.source.replace_node(node, "float16", NO_BFLOAT16))


def _widen(draft: Draft, node: ast.Name) -> bool:
    """Replace the name with `torch.float32`. If the module torch is not imported, warn and return False."""
    torch = name_of(draft.source, "torch")
    if torch is None:
        draft.warn(node, f"{WHY_RANGE}: use torch.float32", hint="import torch")
        return False
    draft.edits.append(draft.source.replace_node(node, f"{torch}.float32", WHY_RANGE))
    return True


def _may_act(draft: Draft, node: ast.expr) -> bool:
    judged = judge_place(draft.source, node)
    if judged.verdict is Verdict.WARN:
        draft.warn(node, judged.message)
    if judged.verdict is Verdict.NEVER and judged.message:
        draft.leave(node, judged.message)
    if judged.verdict is not Verdict.ACT:
        return False
    if _keyword_of(draft, node) == "bnb_4bit_quant_storage" and b"fsdp" not in draft.source.text.lower():
        draft.warn(node, "bnb_4bit_quant_storage must equal the dtype of FSDP's flat parameters; change both together")
        return False
    return True


def _widen_uses(draft: Draft, node: ast.expr) -> bool:
    """Replace the uses of the variable that need the range of float32, if the dtype is assigned to a variable.

    If every use needs this range, change nothing and return True: the caller then replaces the assigned dtype.
    """
    match draft.source.names.parent(node):
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if value is node:
            same = [each for each in draft.source.names.of_type(ast.Name) if each.id == name]
            uses = [each for each in same if isinstance(each.ctx, ast.Load)]
            overflowing = [each for each in uses if needs_range(draft.source, each)]
            if len(same) != len(uses) + 1:
                return False
            for each in overflowing if len(overflowing) < len(uses) else ():
                _widen(draft, each)
            return bool(overflowing) and len(overflowing) == len(uses)
    return False


def _needs_range(draft: Draft, node: ast.expr) -> bool:
    return _keyword_of(draft, node) == "reduce_dtype" or needs_range(draft.source, node)


def _keyword_of(draft: Draft, node: ast.expr) -> str:
    """Return the argument's keyword or "".

    The second positional argument of FSDP's MixedPrecision is `reduce_dtype`.
    """
    above = draft.source.names.parent(node)
    if isinstance(above, ast.Call) and above.args[1:2] == [node]:
        called = (draft.source.names.meaning(above.func) or "").rpartition(".")[2]
        return "reduce_dtype" if called in ("MixedPrecision", "MixedPrecisionPolicy") else ""
    return above.arg or "" if isinstance(above, ast.keyword) else ""


def _aliases(draft: Draft) -> frozenset[str]:
    """Return the names bound by `from ... import ... as NAME`."""
    imports = draft.source.names.of_type(ast.ImportFrom)
    return frozenset(alias.asname for statement in imports for alias in statement.names if alias.asname)


def _rename_imports(draft: Draft, acted: dict[str, list[ast.Name]], left: set[str]) -> None:
    for statement in draft.source.names.of_type(ast.ImportFrom):
        if statement.module != "torch" or statement.level:
            continue
        for alias in statement.names:
            local = alias.asname or alias.name
            if alias.name != "bfloat16" or local not in acted:
                continue
            if local not in left:
                draft.edits.append(
                    draft.source.replace(draft.source.span(alias)[0], "bfloat16", "float16", NO_BFLOAT16)
                )
            elif alias.asname is None:
                _import_float16(draft, alias)
            elif any("float16" in scope.bindings for scope in draft.source.names.scopes.values()):
                message = f"{local} must stay bfloat16 in other places of this file, so its import was not changed"
                draft.warn(alias, message, hint="use torch.float16 where float16 is needed")
            else:
                _import_float16(draft, alias)
                draft.edits += [draft.source.replace_node(each, "float16", NO_BFLOAT16) for each in acted[local]]


def _import_float16(draft: Draft, alias: ast.alias) -> None:
    draft.edits.append(draft.source.insert(draft.source.span(alias)[1], ", float16", NO_BFLOAT16))


def _warn_rebound(draft: Draft, node: ast.expr, name: str) -> None:
    draft.warn(node, f"{name} is also bound to another value, so its value here is unknown; left unchanged")
