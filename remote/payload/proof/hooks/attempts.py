"""The optimizer steps that a proof has seen tried, and whether they are enough to judge the training by."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

MOST = 5

Clip = Tuple[Set[int], Optional[float], float]


class Attempts:
    """One row for each tried step: losses, gradient norm, loss scale, rate, whether it was applied.

    `wanted`: applied steps that count. `patience`: tries that may pass until then.
    """

    def __init__(self, wanted: int, patience: int) -> None:
        self.wanted = wanted
        self.patience = patience
        self.rows: List[Dict[str, Any]] = []

    @property
    def counted(self) -> List[Dict[str, Any]]:
        """Applied steps, but those at a rate of 0; a rate that cannot be read counts."""
        return [row for row in self.rows if row["applied"] and row["lr"] != 0]

    def enough(self, *, idle: bool, put_back: int) -> bool:
        """Whether to stop looking. `idle`: no tensor has had a gradient; `put_back`: how often weights were restored.

        Each of the look-alikes of a fault is given more steps to show which of the two it is: one step more for a loss
        that has not changed and for weights that were restored once; all of the patience where no gradient was seen,
        which one batch without a violated margin gives as well.
        """
        if idle:
            wanted = self.patience
        else:
            losses = {loss for row in self.rows for loss in row["losses"]}
            wanted = self.wanted + (len(losses) == 1 or put_back == 1)
        tries = sum(not self._settles(at) for at in range(len(self.rows)))
        return len(self.counted) >= wanted or tries >= self.patience or len(self.rows) >= MOST * self.patience

    def append_newest(self, path: str) -> None:
        """The newest row is the last line of that file."""
        row = {key: value for key, value in self.rows[-1].items() if key != "nonfinite"}
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"number": len(self.rows), **row}) + "\n")

    def _settles(self, at: int) -> bool:
        """A skipped step whose loss scale still has somewhere to fall to: it began high, or the loss is a sum."""
        row = self.rows[at]
        if row["applied"] or row["scale"] is None or row["scale"] < 1.0:
            return False
        falls = at == 0 or (self.rows[at - 1]["scale"] or 0.0) > row["scale"]
        return falls and all(math.isfinite(loss) for loss in row["losses"])


def last_clip(clips: Sequence[Clip], parameters: Iterable[Any]) -> Optional[Tuple[Optional[float], float]]:
    """Norm and limit of the last clipping of any of these parameters; another model may be clipped beside."""
    held = {id(parameter) for parameter in parameters}
    return next(((norm, limit) for ids, norm, limit in reversed(clips) if not ids.isdisjoint(held)), None)
