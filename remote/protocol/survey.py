"""The survey of a host, taken in one request. The check of each stage uses the survey and local facts."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier
from remote.protocol.jobs import RunSurvey
from remote.protocol.machine import Disk, Driver, Gpu, Interpreter, Machine
from remote.protocol.runs import find_run
from remote.protocol.tree import TreeSurvey


@dataclass(frozen=True)
class SurveyRequest:
    """The parts of the host to survey. Paths are on the host. If `gpus` is None, all cards are included.

    `card` is the name and capability of a card that is assumed if the host has no driver. `python_path` is the
    PYTHONPATH of the host's `env:`, or None to use that of the login files.
    """

    project: str
    python: str
    gpus: Optional[Tuple[int, ...]] = None
    card: Optional[Tuple[str, Tuple[int, int]]] = None
    verify_checkpoints: bool = True
    python_path: Optional[str] = None


@dataclass(frozen=True)
class Survey:
    """The state of a host at one moment."""

    payload: Identifier
    machine: Machine
    interpreter: Interpreter
    driver: Driver
    gpus: Tuple[Gpu, ...]
    disk: Disk
    tree: TreeSurvey
    runs: Tuple[RunSurvey, ...] = ()
    data: Dict[str, Identifier] = field(default_factory=dict)

    def run(self, name: str) -> Optional[RunSurvey]:
        """Return the run with the id `name`, or None if the host does not have it."""
        return find_run(self.runs, name)

    @property
    def gpu(self) -> Optional[Gpu]:
        """The weakest of the selected cards, which decides the precision, or None without a card."""
        return min(self.gpus, key=lambda gpu: gpu.capability, default=None)
