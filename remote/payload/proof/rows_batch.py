"""Rows about what is learnt from: labels, padding, prompt, and what the loss is divided by."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Dict, Iterator, List

from remote.payload.proof.seen import Row, Seen, error, good, warning
from remote.protocol.proof import NotChecked

LEAST_SHARE = 0.005
MOST_SHARE = 0.6
EDGE_RUN = 0.15
MODEL = "the model"
"""How the hooks call labels that a model takes as they are, for a loss of its own."""


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over the batches that were seen."""
    labels = seen.every("labels")
    yield from _masked(labels, seen.every("targets"), seen.loss_lost)
    if not labels:
        why = "no model call had an integer `labels` tensor among its keyword arguments"
        yield NotChecked("labels-padding", why)
        yield NotChecked("labels-prompt", why)
    else:
        yield from _padding(labels)
        yield from _prompt(labels)
    yield from _ignored(seen.every("unignored"))
    yield from _normalisation(seen, labels)


def _masked(labels: List[Dict[str, Any]], targets: List[Dict[str, Any]], loss_lost: bool) -> Iterator[Row]:
    rows = labels or targets
    if not rows:
        yield NotChecked("labels-masked", "neither labels nor a cross entropy over classes were seen")
        return
    empty = [row for row in rows if not row["counted"]]
    share = sum(row["counted"] for row in rows) / sum(row["total"] for row in rows)
    if empty:
        # One sample whose answer was cut off is lost; the others are not.
        told = error if loss_lost or 1 < len(empty) == len(rows) else warning
        yield told("labels-masked", f"all labels of {len(empty)} of {len(rows)} batches are -100: they teach nothing")
    elif share < LEAST_SHARE:
        yield warning("labels-masked", f"only {share:.2%} of all labels count")
    else:
        yield good("labels-masked", f"{share:.0%} of all labels count")


def _padding(labels: List[Dict[str, Any]]) -> Iterator[Row]:
    known = [row for row in labels if row["padding_counted"] is not None]
    wrong = sum(row["padding_counted"] for row in known)
    runs = max((row["edge_run"] for row in labels), default=0.0)
    if wrong:
        # The mask may be of an encoder whose input happens to be as long as the labels.
        padded = all(row["padding_ids"] == 1 for row in known if row["padding_counted"])
        more_than_ends = wrong > sum(row["shape"][0] for row in known)
        told = error if padded and more_than_ends else warning
        yield told(
            "labels-padding", f"{wrong} padding positions are learnt as if they were text", hint="pad labels with -100"
        )
    elif not known and runs > EDGE_RUN:
        text = any(row["of_input"] for row in labels if row["edge_run"] > EDGE_RUN)
        told = error if text else warning
        yield told("labels-padding", f"{runs:.0%} of all labels are one id at the edge: padding is learnt as text")
    elif known:
        yield good("labels-padding", "no padding position counts")
    else:
        yield NotChecked("labels-padding", "no attention_mask of the labels' shape was seen beside them")


def _ignored(losses: List[Dict[str, Any]]) -> Iterator[Row]:
    """Labels of -100 belong into losses that have an ignore_index; a model may mask them before another."""
    functions = [row for row in losses if row["loss"] != MODEL and row["total"]]
    losses = functions or losses
    wrong = [row for row in losses if row["ignored"]]
    for name in sorted({row["loss"] for row in wrong}):
        ignored, total = (sum(row[key] for row in wrong if row["loss"] == name) for key in ("ignored", "total"))
        words = f"{ignored} of {total} targets of {name} are -100, which it does not ignore: it is learnt as a value"
        yield warning("labels-ignored", words, hint="pad with a value that the loss masks")
    if not wrong and any(row["total"] for row in losses):
        yield good("labels-ignored", "no loss without an ignore_index has -100 among its targets")
    elif not wrong:
        yield NotChecked("labels-ignored", "no loss without an ignore_index was seen")


def _prompt(labels: List[Dict[str, Any]]) -> Iterator[Row]:
    labels = [row for row in labels if row["of_input"]]
    if not labels:
        yield NotChecked("labels-prompt", "labels are not the input's own tokens, so no prompt is among them")
        return
    copies = [row for row in labels if row["copies_input"]]
    share = sum(row["counted"] for row in labels) / sum(row.get("real", row["total"]) for row in labels)
    if len(copies) == len(labels):
        yield warning("labels-prompt", "labels are the input unchanged: the prompt is learnt too, not only the answer")
    elif share > MOST_SHARE:
        yield warning("labels-prompt", f"{share:.0%} of all real positions are learnt; is the prompt masked?")
    else:
        yield good("labels-prompt", f"{share:.0%} of all real positions are learnt")


def _normalisation(seen: Seen, labels: List[Dict[str, Any]]) -> Iterator[Row]:
    """`num_items_in_batch` must be the labels that count in one whole optimizer step, on this rank or on all."""
    first_seen = [row for row in seen.first.get("labels", []) if "items" in row]
    steps: Dict[int, List[Dict[str, Any]]] = defaultdict(list)
    # The first model call is not seen, so the first step's sum is short.
    for row in first_seen:
        if 0 < row["attempt"] < len(seen.attempts):
            steps[row["attempt"]].append(row)
    world = int(seen.first.get("world", 1))
    for rows in steps.values():
        counted = sum(row["counted"] for row in rows)
        items = rows[0]["items"]
        if counted and not 0.5 * counted <= items <= 2.0 * counted * world:
            yield warning(
                "loss-normalisation",
                f"num_items_in_batch is {items:g}, but {counted} labels count in a step: "
                f"the loss is {counted / max(items, 1e-9):.3g} times what it should be",
            )
            return
    if steps:
        yield good("loss-normalisation", "num_items_in_batch is the number of labels that count")
    elif labels:
        yield NotChecked("loss-normalisation", "the model is not told num_items_in_batch")
