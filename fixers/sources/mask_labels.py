"""Recognise tensors that are named like labels, but may be padded with 0 on purpose, such as masks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.label_masks import IGNORED, LABELS
from fixers.sources.python import PythonSource

DELIBERATE = "labels that are padded with 0, in a function that pads other labels with -100"
MASK = "labels that are used as a mask"
MEASURED = "labels that a call gets together with their lengths"
LENGTHS = re.compile(r"(?:\w*_)?(?:[a-z]?lens|lengths)")
NO_LOSS = frozenset({"dict", "zip", "append", "print"})
IGNORES = re.compile(r"(?:\w*_)?(?:ignored?_(?:index|id|label\w*|token\w*)|labels?_pad\w*)", re.IGNORECASE)
LOOKUP = re.compile(r"2|map|dict|table|vocab|names|classes|weight|embed", re.IGNORECASE)
"""Matches names of tables that are indexed by class ids."""
PADS = frozenset({"pad", "pad_sequence", "full", "full_like", "new_full"})
LOGICAL = frozenset({"logical_not", "logical_and", "logical_or", "logical_xor", "logical_not_", "logical_and_"})
TAKES_MASK = LOGICAL | {"where", "masked_fill", "masked_fill_", "masked_select", "masked_scatter", "masked_scatter_"}
MAKES_MASK = LOGICAL | {"bool", "eq", "ne", "gt", "ge", "lt", "le", "isin", "isfinite", "isnan"}
BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor)


def reason_for_zeros(source: PythonSource, padded: ast.expr) -> str:
    """Return the reason why 0 may be the right padding of these labels, or an empty string if there is none."""
    nodes = list(ast.walk(source.names.function(padded)))
    own = _labels_around(source, padded)
    linked = _linked(own, nodes)
    if any(_uses_as_mask(source, node, linked) for node in nodes):
        return MASK
    if any(_takes_lengths(node, linked) for node in nodes):
        return MEASURED
    others = (
        _labels_around(source, node) for node in nodes if isinstance(node, ast.expr) and _pads_with_ignore_index(node)
    )
    return DELIBERATE if any(other and not other & own for other in others) else ""


def _takes_lengths(node: ast.AST, names: frozenset[str]) -> bool:
    """Return True for a call such as `criterion(logits, labels, lengths)`, which masks the padding by the lengths."""
    if not isinstance(node, ast.Call) or tail_of(node) in NO_LOSS:
        return False
    given = [each.id if isinstance(each, ast.Name) else getattr(each, "attr", "") for each in node.args]
    return any(_is_of(each, names) for each in node.args) and any(map(LENGTHS.fullmatch, given))


def _labels_around(source: PythonSource, padded: ast.expr) -> frozenset[str]:
    """Return the names in the expression, or in its assignment target, that look like names of labels."""
    above = source.names.parent(padded)
    match above:
        case ast.Assign():
            around: list[ast.AST] = [*above.targets]
        case ast.Dict() if padded in above.values:
            around = [key for key in (above.keys[above.values.index(padded)],) if key is not None]
        case _:
            around = []
    return frozenset(name for each in (padded, *around) for name in _labels_in(each))


def _labels_in(expression: ast.AST) -> Iterator[str]:
    for node in ast.walk(expression):
        match node:
            case ast.Name(id=called) | ast.Attribute(attr=called) | ast.Constant(value=str(called)):
                if LABELS.search(called):
                    yield called


def _linked(own: frozenset[str], nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return `own`, and the label-like names that a statement copies from or to one of the returned names."""
    pairs = [
        (frozenset(_labels_in(target)), frozenset(_labels_in(value)))
        for node in nodes
        for target, value in _assigned(node)
    ]
    found = own
    while True:
        new = frozenset(name for pair in pairs if found & (pair[0] | pair[1]) for name in pair[0] | pair[1])
        if new <= found:
            return found
        found |= new


def _assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the target and the value of `target = value` and of `target.append(value)`, unless one is a tuple."""
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Subscript() as target], value=value):
            if not isinstance(value, (ast.Tuple, ast.Dict)):
                yield target, value
        case ast.Call(func=ast.Attribute(value=target, attr="append"), args=[value]):
            yield target, value


def _pads_with_ignore_index(node: ast.expr) -> bool:
    """Return True if the expression pads with -100: a call such as `pad_sequence`, or `labels + [-100] * n`."""
    match node:
        case ast.Call() if tail_of(node) in PADS:
            return any(map(_is_ignored, (*node.args, *(each.value for each in node.keywords))))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            sides = [each for each in (left, right) if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult)]
            lists = (part for each in sides for part in (each.left, each.right) if isinstance(part, ast.List))
            return any(len(each.elts) == 1 and _is_ignored(each.elts[0]) for each in lists)
    return False


def _is_ignored(value: ast.expr) -> bool:
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)):
            return number == -IGNORED
        case ast.Name(id=called) | ast.Attribute(attr=called):
            return IGNORES.fullmatch(called) is not None
    return False


def _uses_as_mask(source: PythonSource, node: ast.AST, names: frozenset[str]) -> bool:
    """Return True if the node uses one of the names as a mask, or assigns a mask to it."""
    match node:
        case ast.Subscript(value=indexed, slice=index):
            return not _is_lookup(indexed) and _is_of(index, names)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _is_of(operand, names)
        case ast.BinOp(op=operation, left=left, right=right) if isinstance(operation, BITWISE):
            return _is_of(left, names) or _is_of(right, names)
        case ast.Call() if _takes_mask(source, node, names):
            return True
    return any(_is_of(target, names) and _is_mask(source, value) for target, value in _assigned(node))


def _takes_mask(source: PythonSource, call: ast.Call, names: frozenset[str]) -> bool:
    """Return True for `labels.bool()`, `labels.to(torch.bool)`, `torch.where(labels, ...)` and similar calls."""
    if isinstance(call.func, ast.Attribute) and _is_of(call.func.value, names) and _is_mask(source, call):
        return tail_of(call) in LOGICAL | {"bool", "to", "type"}
    return tail_of(call) in TAKES_MASK and any(_is_of(each, names) for each in call.args[:2])


def _is_mask(source: PythonSource, value: ast.expr) -> bool:
    """Return True if the value is Boolean: a comparison, a call that returns a mask, or dtype `torch.bool`."""
    if isinstance(value, ast.Compare):
        return True
    if not isinstance(value, ast.Call):
        return False
    given = (*value.args, *(each.value for each in value.keywords if each.arg == "dtype"))
    return tail_of(value) in MAKES_MASK or any(source.names.meaning(each) == "torch.bool" for each in given)


def _is_of(value: ast.expr, names: frozenset[str]) -> bool:
    """Return True for one of the names, for `batch["labels"]`, and for a part of them, such as `labels[row]`."""
    match value:
        case ast.Name(id=called) | ast.Attribute(attr=called):
            return called in names
        case ast.Subscript(value=within, slice=index):
            return constant_of(index) in names or _is_of(within, names)
    return False


def _is_lookup(indexed: ast.expr) -> bool:
    name = indexed.id if isinstance(indexed, ast.Name) else getattr(indexed, "attr", "")
    return LOOKUP.search(name) is not None
