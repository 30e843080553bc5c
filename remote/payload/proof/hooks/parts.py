"""The parts of a report, each of which is made even if another part cannot be made."""

from __future__ import annotations

import traceback
from typing import Callable, Dict, List, TypeVar

T = TypeVar("T")


class Parts:
    """Records which parts of a report could not be made. The judge makes no statement that needs such a part.

    `missing` maps the name of a part to the reason. `faults` are the tracebacks.
    """

    def __init__(self) -> None:
        self.missing: Dict[str, str] = {}
        self.faults: List[str] = []

    def make(self, name: str, make: Callable[[], T], otherwise: T) -> T:
        """Return the result of `make`, or `otherwise` if it raises."""
        try:
            return make()
        except Exception as error:  # noqa: BLE001 - an incomplete report is better than no report
            self.faults.append(traceback.format_exc(limit=-3))
            self.missing[name] = type(error).__name__
            return otherwise
