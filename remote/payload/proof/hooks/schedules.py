"""Find the step from which a learning rate schedule is 0, by evaluating its functions for later steps."""

from __future__ import annotations

from typing import Any, Optional

LOOKS = 128


def zero_from(scheduler: Any, taken: int, planned: int) -> Optional[int]:
    """Return the approximate optimizer step from which a LambdaLR's rates are 0, or None if they are not 0 at the end.

    `taken` is the number of optimizer steps so far. In each optimizer step, Accelerate advances a schedule by the
    number of processes.
    """
    functions = getattr(scheduler, "lr_lambdas", None)
    done = int(getattr(scheduler, "last_epoch", 0))
    if not functions or not all(callable(one) for one in functions) or taken < 1 or done < 1:
        return None
    advance = max(1, round(done / taken))
    first = None
    for at in range(LOOKS + 1):
        # The rate of the last step itself may be 0.
        step = taken + at * max(0, planned - 1 - taken) // LOOKS
        if any(one(step * advance) for one in functions):
            first = None
        elif first is None:
            first = step
    return first
