"""label-padding: padded label positions are excluded from the loss.

What it does
    Pads labels with -100 where the code pads them with 0 or with the tokenizer's padding token. The fixer changes
    `pad_sequence`, `F.pad`, `torch.full`, `labels + [0] * n`, and an integer `torch.zeros` into whose rows the labels
    are copied. The file must show that the labels are class ids for a loss that ignores -100: it contains a cross
    entropy or token ids.

    Not changed: tensors whose names do not suggest labels, files with a CTC loss or another `ignore_index`, and labels
    whose padding is compared with the padding token or masked with -100 later. `-v` lists labels that are used as a
    mask, labels that a call gets together with their lengths (`criterion(logits, labels, lengths)`), and labels in a
    function that pads other labels with -100; they are not changed. Not changed, but reported:
    floating-point padding, and padding in a file that has a loss with floating-point targets (`binary_cross_entropy`,
    `mse_loss`) or that shifts labels into inputs.

    The proof checks every loss. A label of -100 in a floating-point target reverts this fixer.

Why
    The loss ignores only positions with the label -100. Padding with 0 trains the model to emit token 0 after every
    answer.

Before
    labels = pad_sequence(labels, batch_first=True, padding_value=0)

After
    labels = pad_sequence(labels, batch_first=True, padding_value=-100)

What it can break
    Code that decodes labels must drop -100 first: `labels[labels != -100]`.

How to undo
    pipeline fix --undo
"""

from __future__ import annotations

import ast
import re

from fixers.code.draft import Draft
from fixers.frame.source_fixer import NOTHING, Rewrite
from fixers.frame.target import Target
from fixers.sources.chosen_words import constant_of
from fixers.sources.expressions import tail_of
from fixers.sources.label_masks import (
    INTEGERS,
    LABELS,
    is_padding,
    is_shifted,
    masks_padding,
    mentions_labels,
    reason_against_masking,
)
from fixers.sources.lines import holds, holds_any
from fixers.sources.mask_labels import reason_for_zeros
from fixers.sources.python import PythonSource, reads_python
from fixers.sources.source import Source
from fixers.sources.splice import Edit

name = "label-padding"
safety = "safe"
needles = (b"label",)
below = None
requires: tuple[str, ...] = ()
matches = reads_python

FILLS = (b"pad(", b"full(", b"full_like(", b"zeros(")
FILLED = rb"abel\w*[\"']?\]?\s*[:=]\s*[\w.]*(?:pad|full|full_like|zeros)\("
FILLS_LABELS = tuple(map(re.compile, (rb"pad\(\s*[\w.\[\]\"']*[Ll]abel", b"l" + FILLED, b"L" + FILLED)))
ADDS_LIST = re.compile(rb"\+\s*\[")
ADDS_TO_LABELS = re.compile(rb"[Ll]abel[^\n]*\+\s*\[")
REPEATS_LIST = tuple(map(re.compile, (rb"\]\s*\*[^\n]*[Ll]abel", rb"\*\s*\[[^\n]*[Ll]abel")))
"""Several patterns that start with a literal are faster than one pattern with alternatives."""
PADDING = re.compile(rb"pad_sequence|\bpad\b|\bfull|[Ll]abel")
OWN_RULES = re.compile(rb"ctc|CTC|ignore_index(?!\s*=\s*-100\b)")
MASK = re.compile(r"mask|weight", re.IGNORECASE)
IGNORED = "-100"
PADDERS = ("pad_sequence", "pad")
ZEROS = ("torch.zeros", "numpy.zeros")
WHY = "the loss ignores only -100"


def rewrite(source: Source, target: Target) -> Rewrite:
    """Return the edits that pad labels with -100."""
    if not _may_pad(source.searched) or OWN_RULES.search(source.searched) or not source.python.mentions(PADDING):
        return NOTHING
    draft = Draft(source.python, name)
    for node in draft.source.names.nodes:
        if isinstance(node, ast.Call):
            _judge_call(draft, node)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            _judge_sum(draft, node)
    return draft.rewrite


def _may_pad(data: bytes) -> bool:
    """Return True if the file may pad labels, by text searches that exclude most files."""
    if holds(data, b"pad_sequence("):
        return True
    patterns = (*(FILLS_LABELS if holds_any(data, FILLS) else ()), *REPEATS_LIST)
    if any(pattern.search(data) for pattern in patterns):
        return True
    return ADDS_LIST.search(data) is not None and ADDS_TO_LABELS.search(data) is not None


def _judge_call(draft: Draft, call: ast.Call) -> None:
    tail = tail_of(call)
    meaning = draft.source.names.meaning(call.func) or ""
    if not call.args or _becomes_mask(draft.source, call):
        return
    if meaning in ZEROS:
        _judge_zeros(draft, call)
    elif meaning in ("torch.full", "torch.full_like"):
        if _becomes_labels(draft.source, call):
            _judge_value(draft, call, "fill_value", 1, absent=False)
    elif tail not in PADDERS or not (mentions_labels(call.args[0]) or _becomes_labels(draft.source, call)):
        return
    elif tail == "pad_sequence":
        _judge_value(draft, call, "padding_value", 2, absent=True)
    elif tail == "pad" and meaning == "torch.nn.functional.pad":
        _judge_value(draft, call, "value", 3, absent=True)


def _judge_zeros(draft: Draft, call: ast.Call) -> None:
    """Judge `labels = torch.zeros(rows, columns, dtype=torch.long)` followed by assignments to slices of its rows."""
    source, above = draft.source, draft.source.names.parent(call)
    if (
        not isinstance(above, ast.Assign)
        or not _becomes_labels(source, call)
        or not isinstance(call.func, ast.Attribute)
    ):
        return
    dtypes = [source.names.meaning(keyword.value) for keyword in call.keywords if keyword.arg == "dtype"]
    if not INTEGERS.intersection(dtypes) or not _is_filled(source, above.targets[0]):
        return
    edits = [source.replace_attribute(call.func, "full", WHY)]
    if len(call.args) > 1:
        edits.append(source.insert(source.span(call.args[0])[0], "(", WHY))
    close = ")" if len(call.args) > 1 else ""
    edits.append(source.insert(source.span(call.args[-1])[1], f"{close}, {IGNORED}", WHY))
    _add_edits(draft, call, *edits)


def _is_filled(source: PythonSource, target: ast.expr) -> bool:
    """Return True if the same function assigns slices of the tensor: `labels[row, :length] = ...`."""
    name = source.segment(target)
    function = source.names.function(target)
    for node in ast.walk(function):
        for each in node.targets if isinstance(node, ast.Assign) else ():
            sliced = isinstance(each, ast.Subscript) and any(isinstance(part, ast.Slice) for part in ast.walk(each))
            if sliced and source.segment(_base(each)) == name:
                return True
    return False


def _base(target: ast.expr) -> ast.expr:
    """Return the object to which a chain of subscripts is applied."""
    while isinstance(target, ast.Subscript):
        target = target.value
    return target


def _judge_value(draft: Draft, call: ast.Call, argument: str, position: int, *, absent: bool) -> None:
    given = next((keyword.value for keyword in call.keywords if keyword.arg == argument), None)
    if given is None and len(call.args) > position:
        given = call.args[position]
    if given is None:
        if absent and not any(keyword.arg is None for keyword in call.keywords):
            _add_edits(draft, call, draft.source.append_argument(call, f"{argument}={IGNORED}", WHY))
    elif is_padding(given):
        _add_edits(draft, call, draft.source.replace_node(given, IGNORED, WHY))


def _judge_sum(draft: Draft, node: ast.BinOp) -> None:
    """Judge `labels + [pad] * n` and `[pad] * n + labels`."""
    for labels, padding in ((node.left, node.right), (node.right, node.left)):
        if not isinstance(padding, ast.BinOp) or not isinstance(padding.op, ast.Mult):
            continue
        if not mentions_labels(labels) or _becomes_mask(draft.source, node):
            continue
        for part in (padding.left, padding.right):
            if isinstance(part, ast.List) and len(part.elts) == 1 and is_padding(part.elts[0]):
                _add_edits(draft, node, draft.source.replace_node(part.elts[0], IGNORED, WHY))


def _add_edits(draft: Draft, padded: ast.expr, *edits: Edit) -> None:
    """Add the edits, unless later code depends on the old padding."""
    if masks_padding(draft.source, padded):
        return
    if reason := reason_for_zeros(draft.source, padded):
        draft.leave(padded, reason)
        return
    if is_shifted(draft.source, padded):
        message = (
            "labels are padded with a token, and this function shifts them into inputs; -100 is not a valid input token"
        )
        draft.warn(padded, message, hint="mask labels with -100 after the shift")
        return
    if why := reason_against_masking(draft.source, padded):
        draft.warn(padded, f"labels are padded with a token; left unchanged: {why}", hint="pad class ids with -100")
        return
    draft.edits += edits


def _becomes_mask(source: PythonSource, padded: ast.expr) -> bool:
    """Return True if the result is assigned to a name that is common for masks or weights of the loss."""
    above = source.names.parent(padded)
    while isinstance(above, ast.BinOp):
        above = source.names.parent(above)
    targets = above.targets if isinstance(above, ast.Assign) else ()
    return any(MASK.search(source.segment(target)) for target in targets)


def _becomes_labels(source: PythonSource, call: ast.Call) -> bool:
    """Return True if the result is assigned to a name that is common for labels."""
    above = source.names.parent(call)
    match above:
        case ast.Assign():
            return any(mentions_labels(target) for target in above.targets)
        case ast.Dict() if call in above.values:
            key = constant_of(above.keys[above.values.index(call)])
            return isinstance(key, str) and LABELS.search(key) is not None
        case ast.keyword(arg=str(called)):
            return LABELS.search(called) is not None
    return False
