"""Checks of the offset between targets and input, of the end of each row, and of inputs that never vary."""

from __future__ import annotations

from typing import Iterator, List, Optional

from remote.payload.proof.evidence import Evidence, Result, error, passed, some, warning
from remote.payload.proof.hooks.batch_report import IgnoredGradient, RowEnds, TargetOffsets
from remote.protocol.proof import NotChecked

MATCH = 0.95
COINCIDENCE = 0.6
LEAST_ROWS = 4
LEAST_SAMPLES = 4


def judge(evidence: Evidence) -> Iterator[Result]:
    yield _aligned([row for tables in evidence.batches for row in tables.offsets])
    yield _ends([row for tables in evidence.batches for row in tables.ends])
    yield _ignored([row for tables in evidence.batches for row in tables.ignored])
    yield _inputs(evidence)


def offset_of(row: TargetOffsets) -> Optional[int]:
    """Return the offset of the targets from the tokens of their logits, or None if they are not input tokens."""
    matches = [offset for offset, share in row.share.items() if share >= MATCH]
    others = [share for offset, share in row.share.items() if offset not in matches]
    return int(matches[0]) if len(matches) == 1 and max(others, default=0.0) <= COINCIDENCE else None


def _aligned(rows: List[TargetOffsets]) -> Result:
    """Judge offsets.

    In addition to the head that predicts the next token, a second head may predict a later token by design.
    """
    known = [(offset, row) for row in rows for offset in [offset_of(row)] if offset is not None]
    if not known:
        why = "no cross entropy compared logits at the positions of the input's tokens with tokens of the input"
        return NotChecked("labels-aligned", why)
    offsets = {offset for offset, _ in known}
    if 1 in offsets:
        return passed("labels-aligned", "each position is trained to predict the next token")
    if offsets == {2}:
        return _shifted_twice([row for _, row in known])
    which = "the token that it was given" if 0 in offsets else "the token before the one that it was given"
    return warning(
        "labels-aligned",
        f"each position is trained to predict {which}, not the next one",
        hint="compare logits[:, :-1] with labels[:, 1:]",
    )


def _shifted_twice(rows: List[TargetOffsets]) -> Result:
    message = "each position is trained to predict the token after the next one"
    if all(row.ahead == 1 for row in rows):
        message += ": the labels are shifted before the model is called, and again by the model"
        return error("labels-aligned", message, hint="pass labels in the positions of their tokens")
    return warning("labels-aligned", f"{message}; are the labels shifted twice?", hint="shift labels once")


def _ends(rows: List[RowEnds]) -> Result:
    """Judge row ends.

    An end that is not learnt may be intended, for example in chunks of a text or with another end marker.
    """
    count, ids = sum(row.rows for row in rows), {row.id for row in rows}
    if count < LEAST_ROWS or len(ids) != 1:
        return NotChecked("labels-end", f"no single id follows the labels of {LEAST_ROWS} rows or more")
    if any(row.learnt for row in rows):
        return passed("labels-end", "the id that follows the last label is a label elsewhere in the batch")
    if all(row.marked for row in rows):
        return passed("labels-end", "the labels of all rows end in the same id")
    which = f"the id {min(ids)}, which follows the last label of each of {count} rows, is never a label"
    return _never_learnt(rows, which)


def _never_learnt(rows: List[RowEnds], which: str) -> Result:
    if all(row.attended for row in rows) and any(row.pads for row in rows):
        message = f"{which}: it is also the padding id, which is masked, so the model never learns to stop"
        return error("labels-end", message, hint="mask labels by the attention mask, not by the padding id")
    if any(row.pads and row.configured for row in rows):
        message = f"{which}: it is the padding id, and no other id ends the text, so the model may never learn to stop"
        return warning("labels-end", message, hint="end each answer with the end-of-text token, and label it")
    return passed("labels-end", f"{which}; nothing else indicates that it ends the text")


def _ignored(rows: List[IgnoredGradient]) -> Result:
    """Judge positions without a label.

    Distillation may train such positions, but not towards the uniform distribution.
    """
    positions = sum(row.positions for row in rows)
    if not positions:
        return NotChecked("loss-ignores", "no batch had positions to ignore, or the logits' gradient was not measured")
    reached, compared = sum(row.reached for row in rows), sum(row.compared for row in rows)
    if not reached:
        return passed("loss-ignores", f"{positions} positions without a label get no gradient")
    message = f"{reached} of {positions} positions without a label are learnt"
    hint = "mask the loss of each position before it is summed"
    if compared >= LEAST_SAMPLES and sum(row.uniform for row in rows) == compared:
        return error("loss-ignores", f"{message}: label smoothing trains them towards all ids equally", hint=hint)
    if compared >= LEAST_SAMPLES and sum(row.one_id for row in rows) == compared:
        return warning("loss-ignores", f"{message}: the loss trains them towards one id", hint=hint)
    return passed("loss-ignores", f"{message}, possibly from other targets")


def _inputs(evidence: Evidence) -> Result:
    """Judge repeated inputs. A small data set may fit in one batch, and a batch may contain only text."""
    inputs = evidence.first.batches.inputs
    if not inputs.steps:
        return NotChecked("inputs-vary", "no model call had tensors among its arguments")
    constant, same = inputs.constant, inputs.same
    if constant:
        message = (
            f"{some(constant)} contains only one number in all of {inputs.steps} steps: nothing can be learnt from it"
        )
        return warning("inputs-vary", message, hint="check how audio is loaded and its features are computed")
    if inputs.steps < 2:
        return NotChecked("inputs-vary", "only one step had a model call")
    if inputs.repeats == inputs.steps - 1:
        message = f"all of {inputs.steps} steps got the same batch"
        return warning("inputs-vary", message, hint="check the sampler, and next(iter(loader)) inside the loop")
    if same:
        message = f"{some(same)} is the same in all of {inputs.steps} steps, while other inputs change"
        return warning("inputs-vary", message, hint="check the cache of the features")
    return passed("inputs-vary", f"the inputs of {inputs.steps} steps differ")
