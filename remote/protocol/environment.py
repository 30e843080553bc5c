"""Facts that need the interpreter: whether torch and other packages can be imported, and whether each card works."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier
from remote.protocol.machine import Disk, Interpreter


@dataclass(frozen=True)
class EnvironmentRequest:
    """The tests to run with the host's interpreter.

    `write_bytes` bytes are written to the runs' folder and removed again, because only a write reveals a quota. `slurm`
    contains the srun options to run the interpreter on a compute node, or None to run it on the host itself.
    """

    project: str
    python: str
    gpus: Optional[Tuple[int, ...]] = None
    environment: Dict[str, str] = field(default_factory=dict)
    packages: Tuple[str, ...] = ("torch", "transformers", "peft")
    write_bytes: int = 64 * 2**20
    deadline_s: float = 180.0
    slurm: Optional[Tuple[str, ...]] = None


@dataclass(frozen=True)
class CardTrial:
    """One card, by torch's index, after a small matrix product. `error` is set if the product failed."""

    index: int
    name: Identifier
    capability: Tuple[int, int]
    error: str = ""


@dataclass(frozen=True)
class EnvironmentFacts:
    """The results of the tests. `imports` maps each package to its import error, or to "" if the import succeeded.

    `error` explains why the tests could not be run.
    """

    interpreter: Interpreter
    disk: Disk
    cuda_available: bool = False
    cards: Tuple[CardTrial, ...] = ()
    imports: Dict[str, str] = field(default_factory=dict)
    error: str = ""
