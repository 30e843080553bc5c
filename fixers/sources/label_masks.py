"""Recognise labels and padding by name, losses by their target type, and code that masks labels."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from fixers.sources.expressions import tail_of
from fixers.sources.python import PythonSource

LABELS = re.compile(
    r"(?<![a-z0-9])(?<!num_)(?<!n_)labels?(?![a-z])(?!_?(?:mask|len|name|map|2|smooth|encoder|count))", re.IGNORECASE
)
PADDING_NAMES = re.compile(r"(?<!label_)(?<!labels_)(?:pad(?:ding)?(?:_token)?_(?:id|value|idx|index)|padding_idx)$")
COMPARES = frozenset({"eq", "ne", "eq_", "ne_", "equal", "not_equal"})
MASKS = frozenset({"masked_fill", "masked_fill_", "where", "masked_scatter", "masked_scatter_"})
SHIFTS = re.compile(r"shift\w*right|shift_?(?:tokens|labels|ids)?$|\w*decoder_input_ids")
IGNORED = -100
INTEGERS = frozenset(f"torch.{name}" for name in ("long", "int64", "int", "int32", "short", "int16")) | {
    "numpy.int64",
    "numpy.int32",
}
NOT_CLASSES = re.compile(
    r"(?:.*_)?(?:multi_?hot|one_?hot|multi_?label\w*|soft|float(?:32|16|64)?|probs?|probabilit(?:y|ies)|scores?|ratings?"
    r"|regression|values?|logits)(?:_.*)?",
    re.IGNORECASE,
)
FLOAT_TARGETS = re.compile(
    rb"binary_cross_entropy|\bBCE|MSELoss|mse_loss|[lL]1_?[lL]oss|[hH]uber|kl_?div|KLDiv|[sS]oft_?[mM]argin|[mM]ulti_?[lL]abel"
    rb"|multi_?hot|one_?hot|focal|[pP]earson|concordance"
)
"""Matches losses with floating-point targets, which have no `ignore_index`."""
CLASS_TARGETS = re.compile(rb"cross_entropy|CrossEntropy|nll_loss|NLLLoss|IGNORE_INDEX")
TOKENS = re.compile(
    rb"input_ids|input_features|input_values|inputs_embeds|attention_mask|decoder_|tokenizer|processor|pad_token|transformers|[cC]ollator"
)
"""Matches arguments of transformers models that are passed together with `labels`. These models' losses ignore -100."""


def reason_against_masking(source: PythonSource, padded: ast.expr) -> str:
    """Return the reason why the loss might not ignore the label -100, or an empty string if it ignores that label."""
    for node in ast.walk(padded):
        match node:
            case ast.Name(id=called) | ast.Attribute(attr=called) | ast.Constant(value=str(called)):
                if NOT_CLASSES.fullmatch(called):
                    return f"{called} shows that they are not class ids"
            case ast.keyword(arg="dtype", value=dtype) if source.names.meaning(dtype) not in INTEGERS:
                return "their dtype is not an integer, and only a loss over class ids ignores -100"
    if found := FLOAT_TARGETS.search(source.text):
        return f"{found[0].decode()} in this file has no ignore_index"
    evidence = (CLASS_TARGETS, TOKENS)
    if not any(each.search(source.path.encode()) or source.mentions(each) for each in evidence):
        return "this file does not show that their loss ignores -100"
    return ""


def is_padding(value: ast.expr) -> bool:
    """Return True for the constant 0 or a variable named like a padding token."""
    match value:
        case ast.Constant(value=int(number)):
            return number == 0 and number is not False
        case ast.Name(id=called) | ast.Attribute(attr=called):
            return PADDING_NAMES.search(called) is not None
    return False


def mentions_labels(expression: ast.AST) -> bool:
    """Return True if a name, attribute or key in the expression is named like labels, and not only counted by `len`."""
    counted = (each for each in ast.walk(expression) if isinstance(each, ast.Call) and tail_of(each) == "len")
    ignored = {id(part) for call in counted for part in ast.walk(call)}
    for node in (each for each in ast.walk(expression) if id(each) not in ignored):
        match node:
            case ast.Name(id=called) | ast.Attribute(attr=called) | ast.Constant(value=str(called)):
                if LABELS.search(called):
                    return True
    return False


def masks_padding(source: PythonSource, padded: ast.expr) -> bool:
    """Return True if the file compares labels with padding, or the function later sets them to -100."""
    if source.remember("compares-labels-with-padding", lambda: any(_compared(source))):
        return True
    function = source.names.function(padded)
    later = (node for node in ast.walk(function) if getattr(node, "lineno", 0) >= padded.lineno)
    return any(_assigns_ignored_label(node) for node in later)


def is_shifted(source: PythonSource, padded: ast.expr) -> bool:
    """Return True if a later call shifts the labels into decoder inputs with a function that does not handle -100.

    The functions of transformers handle -100.
    """
    function = source.names.function(padded)
    return any(
        isinstance(node, ast.Call)
        and node.lineno >= padded.lineno
        and SHIFTS.fullmatch(tail_of(node)) is not None
        and not (source.names.meaning(node.func) or "").startswith("transformers.")
        and tail_of(node) != "prepare_decoder_input_ids_from_labels"
        and any(mentions_labels(argument) for argument in node.args)
        for node in ast.walk(function)
    )


def _compared(source: PythonSource) -> Iterator[bool]:
    for compare in source.names.of_type(ast.Compare):
        sides = (compare.left, *compare.comparators)
        yield any(map(is_padding, sides)) and any(map(mentions_labels, sides))
    for call in source.names.of_type(ast.Call):
        if tail_of(call) in COMPARES:
            sides = (*call.args, *([call.func.value] if isinstance(call.func, ast.Attribute) else []))
            yield any(map(is_padding, sides)) and any(map(mentions_labels, sides))


def _assigns_ignored_label(node: ast.AST) -> bool:
    match node:
        case ast.Call() if tail_of(node) in MASKS:
            return any(_is_ignored(argument) for argument in node.args)
        case ast.Assign(targets=[ast.Subscript(slice=ast.Slice() | ast.Tuple())]):
            return False
        case ast.Assign(targets=[ast.Subscript() as target], value=value):
            return _is_ignored(value) and mentions_labels(target.value)
        case ast.ListComp(elt=ast.IfExp(body=one, orelse=other, test=ast.Compare()), generators=[each, *_]):
            return (_is_ignored(one) or _is_ignored(other)) and mentions_labels(each.iter)
    return False


def _is_ignored(value: ast.expr) -> bool:
    match value:
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=number)):
            return number == -IGNORED
    return False
