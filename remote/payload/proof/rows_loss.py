"""Rows about the loss: its numbers, its dtype, and whether it changes."""

from __future__ import annotations

import math
from typing import Iterator, List

from remote.payload.proof.seen import Row, Seen, error, good, warning
from remote.protocol.proof import NotChecked

FLOAT16_MAX = 65504.0
STEPS_TO_COMPARE = 3


def judge(seen: Seen) -> Iterator[Row]:
    """Rows over every scalar that went backward."""
    losses = seen.losses
    if not losses:
        for check in ("loss-finite", "loss-dtype"):
            yield NotChecked(check, "no scalar loss was seen going backward")
        return
    yield _finite(seen, losses)
    steps = [row["losses"] for row in seen.attempts if row["losses"]]
    if steps:
        yield _zero(seen, steps)
        yield _constant(seen, steps)
    yield _dtype(seen)


def _finite(seen: Seen, losses: List[float]) -> Row:
    bad = [loss for loss in losses if not math.isfinite(loss)]
    message = f"{len(bad)} of {len(losses)} losses are {bad[0]}" if bad else ""
    if not bad:
        return good("loss-finite", f"{len(losses)} losses, {losses[0]:.4g} first and {losses[-1]:.4g} last")
    if seen.loss_lost:
        return error("loss-finite", message)
    return warning("loss-finite", f"{message}; the weights are finite, and steps were applied")


def _zero(seen: Seen, steps: List[List[float]]) -> Row:
    """A loss of 0.0 alone is no fault: GRPO's first one is 0, and so is a hinge whose margins are all satisfied."""
    zeros = sum(all(loss == 0.0 for loss in row) for row in steps)
    if not zeros:
        return good("loss-zero", "no step has a loss of exactly 0.0")
    message = f"the loss is exactly 0.0 in {zeros} of {len(steps)} steps"
    if not seen.gradients():
        return warning("loss-zero", f"{message}; the gradients were not seen")
    if zeros == len(steps) and seen.idle:
        return error("loss-zero", f"{message}, and no trained tensor gets a gradient: nothing is being learnt")
    return good("loss-zero", f"{message}; trained tensors get gradients")


def _constant(seen: Seen, steps: List[List[float]]) -> Row:
    """A loss that seems constant may change in digits that it does not have, as DPO's at a rate of 5e-7."""
    losses = [loss for row in steps for loss in row]
    if len(set(losses)) > 1:
        return good("loss-constant", "the loss changes")
    if len(steps) < STEPS_TO_COMPARE or not math.isfinite(losses[0]) or losses[0] == 0.0:
        return NotChecked("loss-constant", "too few losses other than 0.0 and NaN to compare")
    message = f"the loss is {losses[0]:.6g} in every one of {len(steps)} steps"
    if seen.idle:
        return error("loss-constant", f"{message}, and no trained tensor gets a gradient")
    if seen.moved() and not any(seen.moved().values()):
        return error("loss-constant", f"{message}, and no trained tensor changes")
    return warning("loss-constant", f"{message}, although trained tensors change")


def _dtype(seen: Seen) -> Row:
    dtypes = {name for rank in seen.ranks for name in rank.get("loss_dtypes", {})}
    entropies = [
        row for row in seen.every("targets") if row["dtype"] == "torch.float16" and row["autocast"] != "float16"
    ]
    if not ("float16" in dtypes or entropies):
        return good("loss-dtype", f"the loss is {' and '.join(sorted(dtypes))}")
    if seen.waits_for_card:
        return NotChecked("loss-dtype", "the command's autocast, which widens most losses, is on on a card only")
    where = "the loss is float16" if "float16" in dtypes else "cross entropy is computed in float16"
    if not seen.effective and (seen.loss_lost or _overflows_when_scaled(seen)):
        return error("loss-dtype", f"{where} and overflows, so no step is applied", hint="loss.float()")
    return warning("loss-dtype", f"{where}: scaled by 65536, it overflows from 1.0 on", hint="loss.float()")


def _overflows_when_scaled(seen: Seen) -> bool:
    scaled = [abs(loss) * row["scale"] for row in seen.attempts if row["scale"] for loss in row["losses"]]
    return any(value > FLOAT16_MAX for value in scaled)
