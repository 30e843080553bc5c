"""Find the token after the last label of each row, to detect an end marker that is never learnt."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from .batch_report import RowEnds
from .foreign import read

IGNORED = -100
NEARLY_ALL = 0.95


def labels_ahead(labels: Any, tokens: Any) -> Optional[int]:
    """Return by how many positions the labels are shifted against the tokens: 0, 1, or None if neither fits."""
    counted = labels != IGNORED
    total = int(counted.sum())
    same = int(((labels == tokens) & counted).sum())
    next_one = int(((labels == tokens.roll(-1, dims=-1)) & counted).sum())
    # If rows are shifted and then truncated, the last label is a token that is no longer in the input.
    if total and next_one >= min(NEARLY_ALL * total, total - labels.shape[0]) and next_one > same:
        return 1
    return 0 if total and same >= NEARLY_ALL * total and same > next_one else None


def measure_ends(root: Any, inputs: Dict[str, Any]) -> Optional[RowEnds]:
    """Return the tokens after the last label of each row.

    Return None if labels are not the input's tokens, if most rows end with a label, or if the tokens differ between
    rows.
    """
    labels: Any = inputs.get("labels")
    tokens: Any = inputs.get("input_ids")
    mask: Any = inputs.get("attention_mask")
    shape = getattr(tokens, "shape", None)
    if shape is None or len(shape) != 2 or getattr(labels, "shape", None) != shape or labels.is_floating_point():
        return None
    ahead = labels_ahead(labels, tokens)
    if ahead is None:
        return None
    rows = (labels != IGNORED).any(dim=1).nonzero().flatten()
    counted = (labels != IGNORED)[rows]
    width = shape[1]
    last = width - 1 - counted.int().flip(1).argmax(dim=1)
    end = last + ahead + 1
    inside = end < width
    rows, last, end = rows[inside], last[inside], end[inside]
    if 2 * len(rows) < len(counted) or not len(rows):
        return None
    ids = tokens[rows, end]
    # A prompt may contain end markers of earlier turns, but no label follows this position.
    if not bool((ids == ids[0]).all()):
        return None
    attended, pads = False, False
    if getattr(mask, "shape", None) == shape:
        attended = bool((mask[rows, end] != 0).all())
        outside = tokens[mask == 0]
        pads = bool(outside.numel()) and bool((outside == ids[0]).all())
    return RowEnds(
        rows=len(rows),
        id=int(ids[0]),
        learnt=bool((labels == ids[0]).any()),
        attended=attended,
        pads=pads,
        configured=int(ids[0]) in _configured_ends(root),
        marked=bool((labels[rows, last] == labels[rows[0], last[0]]).all()),
    )


def _configured_ends(root: Any) -> Tuple[Any, ...]:
    """Return the ids that the config of a transformers model names as the end of text."""
    known = read(read(root, "module", otherwise=root), "config", "eos_token_id")
    return tuple(known) if isinstance(known, (list, tuple)) else (known,)
