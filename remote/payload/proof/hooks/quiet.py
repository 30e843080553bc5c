"""Record errors of the hooks inside the user's training without raising them."""

from __future__ import annotations

import functools
import os
import sys
import time
import traceback
from typing import Any, Callable, List


class Ledger:
    """The process that the hooks record, the errors of their code, and the time that the hooks took."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.faults: List[str] = []
        self.own_s = 0.0
        self.depth = 0
        self.since = self.began = time.perf_counter()

    def end_step(self, entered: float, now: float) -> float:
        """Return the seconds of the step that ends at `now`, without those of the hooks, and begin the next step.

        The wait for the card, from `entered` to `now`, belongs to the step. The rest of the time of the current call
        is the hooks': `quiet` adds it when the call ends.
        """
        seconds = now - self.since - self.own_s - (entered - self.began)
        self.since, self.own_s = now, self.began - now
        return seconds


def quiet(method: Callable[..., None]) -> Callable[..., None]:
    """Wrap a method of an object with a `ledger`: skip forked children and fake tensors, record errors and time."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        ledger: Ledger = self.ledger
        # A forked data loader worker inherits the patches, but its losses do not belong to the training.
        if os.getpid() != ledger.pid or _is_simulated():
            return
        began = time.perf_counter()
        if not ledger.depth:
            ledger.began = began
        ledger.depth += 1
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - a defect of the hooks must not end the user's training
            if len(ledger.faults) < 5:
                ledger.faults.append(f"{method.__name__}: {traceback.format_exc(limit=-3)}")
        finally:
            ledger.depth -= 1
            # The time of a nested call is already included in the time of the outer call.
            if not ledger.depth:
                ledger.own_s += time.perf_counter() - began

    return call


def _is_simulated() -> bool:
    """Return True under FakeTensorMode: an estimate of memory, or a compiler, runs a model on tensors without data."""
    native = getattr(sys.modules.get("torch"), "_C", None)
    try:
        return native._get_dispatch_mode(native._TorchDispatchModeKey.FAKE) is not None  # type: ignore[union-attr]
    except AttributeError:
        return False
