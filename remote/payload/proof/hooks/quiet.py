"""Our own faults inside somebody else's training: written down, never raised."""

from __future__ import annotations

import functools
import os
import time
import traceback
from typing import Any, Callable, List


class Ledger:
    """Whose process this is, what went wrong in our code, and how long our code took."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.faults: List[str] = []
        self.own_s = 0.0


def quiet(method: Callable[..., None]) -> Callable[..., None]:
    """`method` of an object with a `ledger`: silent in forked children, its errors kept, its time counted."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> None:
        ledger: Ledger = self.ledger
        # A forked data loader worker inherits the seams, but its losses are nobody's.
        if os.getpid() != ledger.pid:
            return
        began = time.perf_counter()
        try:
            method(self, *args, **kwargs)
        except Exception:  # noqa: BLE001 - a defect of ours must not end the user's training
            if len(ledger.faults) < 5:
                ledger.faults.append(f"{method.__name__}: {traceback.format_exc(limit=-3)}")
        finally:
            ledger.own_s += time.perf_counter() - began

    return call
