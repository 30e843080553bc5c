"""Save and restore the states of the random number generators of Python, NumPy and torch."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any, List


@dataclass(frozen=True)
class RandomState:
    """The state of each global generator. `numpy` is None without NumPy, `cuda` is empty if torch uses no card."""

    python: Any
    numpy: Any
    cpu: Any
    cuda: List[Any]

    @classmethod
    def now(cls) -> RandomState:
        """Return the present state."""
        torch, numpy = sys.modules["torch"], sys.modules.get("numpy.random")
        uses_cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
        cuda = torch.cuda.get_rng_state_all() if uses_cuda else []
        return cls(random.getstate(), numpy.get_state() if numpy else None, torch.get_rng_state(), cuda)

    def restore(self) -> None:
        """Set all generators to this state."""
        torch, numpy = sys.modules["torch"], sys.modules.get("numpy.random")
        random.setstate(self.python)
        if numpy and self.numpy is not None:
            numpy.set_state(self.numpy)
        torch.set_rng_state(self.cpu)
        if self.cuda:
            torch.cuda.set_rng_state_all(self.cuda)

    def is_current(self) -> bool:
        """Return True if no random number of torch was drawn on the CPU or the cards since this state."""
        torch = sys.modules["torch"]
        now = RandomState.now()
        pairs = zip((self.cpu, *self.cuda), (now.cpu, *now.cuda))
        return len(self.cuda) == len(now.cuda) and all(torch.equal(one, other) for one, other in pairs)
