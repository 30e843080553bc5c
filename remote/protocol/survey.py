"""Everything one exchange brings home: each stage's check is a judgement over this and the local facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Optional, Tuple

from remote.protocol.jobs import RunSurvey
from remote.protocol.machine import Disk, Driver, Gpu, Interpreter, Machine
from remote.protocol.tree import TreeSurvey


@dataclass(frozen=True)
class SurveyRequest:
    """What to look at. Paths are the host's; `gpus` None: all; `card` is what to assume where none can be asked."""

    project: str
    python: str
    gpus: Optional[Tuple[int, ...]] = None
    card: Optional[Tuple[str, Tuple[int, int]]] = None
    ports: Tuple[int, ...] = ()
    files: Tuple[str, ...] = ()
    verify_checkpoints: bool = True


@dataclass(frozen=True)
class FileFact:
    """One file of the host that was asked about; `sha256` is empty where it is not a regular file."""

    path: str
    exists: bool
    size_bytes: int = 0
    sha256: str = ""
    head: str = ""


@dataclass(frozen=True)
class Survey:
    """The host at one moment."""

    payload: str
    machine: Machine
    interpreter: Interpreter
    driver: Driver
    gpus: Tuple[Gpu, ...]
    disk: Disk
    tree: TreeSurvey
    runs: Tuple[RunSurvey, ...] = ()
    free_ports: Tuple[int, ...] = ()
    files: Tuple[FileFact, ...] = ()
    data: Dict[str, str] = field(default_factory=dict)
    linger: Optional[bool] = None

    def run(self, name: str) -> Optional[RunSurvey]:
        """The run of that id, where the host has it."""
        return next((run for run in self.runs if run.run == name), None)

    @property
    def gpu(self) -> Optional[Gpu]:
        """The weakest card of those chosen: what precision must be judged by."""
        return min(self.gpus, key=lambda gpu: gpu.capability, default=None)
