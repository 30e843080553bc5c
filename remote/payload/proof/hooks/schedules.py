"""Find the step from which a learning rate schedule is 0, by evaluating its functions for later steps."""

from __future__ import annotations

import functools
from typing import Any, Optional

from .foreign import read, result_of

LOOKS = 128
UNKNOWN_RATE = 1.0


def zero_from(scheduler: Any, taken: int, planned: int) -> Optional[int]:
    """Return the approximate optimizer step from which a LambdaLR's rates are 0, or None if they are not 0 at the end.

    `taken` is the number of optimizer steps so far. In each optimizer step, Accelerate advances a schedule by the
    number of processes.
    """
    functions = read(scheduler, "lr_lambdas")
    done = int(read(scheduler, "last_epoch", otherwise=0))
    if not functions or not all(callable(one) for one in functions) or taken < 1 or done < 1:
        return None
    advance = max(1, round(done / taken))
    first = None
    for at in range(LOOKS + 1):
        # The rate of the last step itself may be 0.
        step = taken + at * max(0, planned - 1 - taken) // LOOKS
        # A function of the script may fail for steps that the script does not reach.
        if any(result_of(functools.partial(one, step * advance), UNKNOWN_RATE) for one in functions):
            first = None
        elif first is None:
            first = step
    return first
