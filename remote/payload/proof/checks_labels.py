"""Checks of the training targets: labels, padding, prompt, and the number of items by which the loss is divided."""

from __future__ import annotations

from collections import defaultdict
from typing import Dict, Iterator, List, Sequence, Tuple, Union

from remote.payload.proof.evidence import Evidence, Result, error, passed, warning
from remote.payload.proof.hooks.batch_report import EntropyTargets, LabelCounts, ValueTargets
from remote.payload.proof.hooks.batches import MODEL
from remote.protocol.proof import NotChecked

LEAST_SHARE = 0.005
MOST_SHARE = 0.6
EDGE_RUN = 0.15


def judge(evidence: Evidence) -> Iterator[Result]:
    labels = evidence.labels
    yield _masked(labels or evidence.entropies, evidence.loss_lost)
    if labels:
        yield _padding(labels)
        yield _prompt([row for row in labels if row.of_input])
    else:
        why = "no model call had an integer `labels` tensor among its keyword arguments"
        yield NotChecked("labels-padding", why)
        yield NotChecked("labels-prompt", why)
    yield from _ignored(evidence.value_targets)
    yield from _normalisation(evidence)


def _masked(rows: Sequence[Union[LabelCounts, EntropyTargets]], loss_lost: bool) -> Result:
    if not rows:
        return NotChecked("labels-masked", "neither labels nor a cross entropy over classes were recorded")
    empty = sum(not row.counted for row in rows)
    if empty:
        # A row without labels is a sample whose answer was truncated. The model still learns from the other samples.
        grade = error if loss_lost or 1 < empty == len(rows) else warning
        return grade(
            "labels-masked", f"all labels of {empty} of {len(rows)} batches are -100: nothing is learnt from them"
        )
    share = sum(row.counted for row in rows) / sum(row.total for row in rows)
    if share < LEAST_SHARE:
        return warning("labels-masked", f"only {share:.2%} of all labels contribute to the loss")
    batches = [row for row in rows if isinstance(row, LabelCounts) and len(row.shape) > 1]
    unlabelled, all_rows = sum(row.empty_rows for row in batches), sum(row.shape[0] for row in batches)
    if unlabelled:
        return warning(
            "labels-masked", f"all labels of {unlabelled} of {all_rows} rows are -100: nothing is learnt from them"
        )
    return passed("labels-masked", f"{share:.0%} of all labels contribute to the loss")


def _padding(labels: List[LabelCounts]) -> Result:
    masked = [row for row in labels if row.padding_counted is not None]
    learnt = [row for row in masked if row.padding_counted]
    if learnt:
        return _padding_learnt(masked, learnt)
    if masked:
        return passed("labels-padding", "no padding position contributes to the loss")
    runs = [row for row in labels if row.edge_run > EDGE_RUN]
    if runs:
        grade = error if any(row.of_input for row in runs) else warning
        share = max(row.edge_run for row in runs)
        return grade(
            "labels-padding",
            f"{share:.0%} of all labels repeat one id at an end of the rows: padding is learnt as text",
        )
    return NotChecked("labels-padding", "no attention_mask with the shape of the labels was passed")


def _padding_learnt(masked: List[LabelCounts], learnt: List[LabelCounts]) -> Result:
    """Judge labels at padding positions.

    A few such labels, or labels with different ids, are only a warning: the mask may belong to an encoder whose input
    is as long as the labels.
    """
    count = sum(row.padding_counted or 0 for row in learnt)
    one_id = all(row.padding_ids == 1 for row in learnt)
    grade = error if one_id and count > sum(row.shape[0] for row in masked) else warning
    message = f"{count} padding positions are learnt as if they were text"
    return grade("labels-padding", message, hint="pad labels with -100")


def _ignored(rows: List[ValueTargets]) -> Iterator[Result]:
    """Judge labels of -100 in losses without an ignore_index.

    A model may mask such labels before it computes the loss.
    """
    losses = [row for row in rows if row.loss != MODEL and row.total] or rows
    wrong = [row for row in losses if row.ignored]
    for name in sorted({row.loss for row in wrong}):
        ignored, total = _counts([row for row in wrong if row.loss == name])
        message = (
            f"{ignored} of {total} targets of {name} are -100, which this loss does not ignore but learns as a value"
        )
        yield warning("labels-ignored", message, hint="pad with a value that the loss masks")
    if wrong:
        return
    if any(row.total for row in losses):
        yield passed("labels-ignored", "targets of losses without an ignore_index are never -100")
    else:
        yield NotChecked("labels-ignored", "no loss such as binary cross entropy, CTC or mean squared error was called")


def _counts(rows: List[ValueTargets]) -> Tuple[int, int]:
    return sum(row.ignored for row in rows), sum(row.total for row in rows)


def _prompt(labels: List[LabelCounts]) -> Result:
    if not labels:
        return NotChecked("labels-prompt", "the labels are not tokens of the input, so they contain no prompt")
    share = sum(row.counted for row in labels) / sum(row.total if row.real is None else row.real for row in labels)
    if all(row.copies_input for row in labels):
        message = "the labels equal the input ids: the model learns to predict the prompt, not only the answer"
        return warning("labels-prompt", message)
    if share > MOST_SHARE:
        return warning(
            "labels-prompt", f"{share:.0%} of all positions without padding are learnt; is the prompt masked?"
        )
    return passed("labels-prompt", f"{share:.0%} of all positions without padding are learnt")


def _normalisation(evidence: Evidence) -> Iterator[Result]:
    """Judge `num_items_in_batch`: the number of labels other than -100 in one optimizer step."""
    steps: Dict[int, List[LabelCounts]] = defaultdict(list)
    for row in evidence.first.batches.labels:
        if row.items is not None and row.step < len(evidence.steps):
            steps[row.step].append(row)
    wrong = [result for rows in steps.values() for result in _wrong_items(rows, evidence.first.world)]
    if wrong:
        yield wrong[0]
    elif steps:
        yield passed("loss-normalisation", "num_items_in_batch is the number of labels other than -100")
    elif evidence.labels:
        yield NotChecked("loss-normalisation", "num_items_in_batch is not passed to the model")


def _wrong_items(rows: List[LabelCounts], world: int) -> Iterator[Result]:
    counted, items = sum(row.counted for row in rows), rows[0].items or 0.0
    if counted and not 0.5 * counted <= items <= 2.0 * counted * world:
        yield warning(
            "loss-normalisation",
            f"num_items_in_batch is {items:g}, but a step has {counted} labels other than -100: "
            f"the loss is {counted / max(items, 1e-9):.3g} times what it should be",
        )
