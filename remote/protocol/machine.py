"""Facts about a host from one survey: interpreter, torch build, driver, cards, disk, memory."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import Identifier
from remote.protocol.layout import OptionalRunId
from remote.protocol.values import Signed


@dataclass(frozen=True)
class Torch:
    """One torch build. `arch_list` is `torch.cuda.get_arch_list()`: () for a CPU build, None if it was not checked."""

    version: Identifier
    cuda: Optional[Identifier] = None
    arch_list: Optional[Tuple[Identifier, ...]] = None


@dataclass(frozen=True)
class Interpreter:
    """The Python that trains. If it cannot run, `error` is set and the other fields are empty."""

    path: Identifier
    realpath: Identifier = ""
    version: Tuple[int, ...] = ()
    prefix: Identifier = ""
    torch: Optional[Torch] = None
    packages: Dict[str, Identifier] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class GpuProcess:
    """A process on a card. `ours` is the run id if the process belongs to an earlier run of this project."""

    pid: int
    name: str
    used_bytes: int
    user: str = ""
    ours: OptionalRunId = ""


@dataclass(frozen=True)
class Gpu:
    """One card as the driver reports it. `capability` is (major, minor); it decides whether bfloat16 is supported."""

    index: int
    uuid: Identifier
    name: Identifier
    capability: Tuple[int, int]
    memory_bytes: int
    used_bytes: int = 0
    compute_mode: Identifier = "Default"
    processes: Tuple[GpuProcess, ...] = ()
    assumed: bool = False


NO_DRIVER = "no nvidia-smi on PATH"


@dataclass(frozen=True)
class Driver:
    """The NVIDIA driver. `error` is set if the driver is absent, hangs or has lost the card."""

    version: Identifier = ""
    cuda: Identifier = ""
    error: str = ""

    @property
    def broken(self) -> bool:
        """True if a driver is installed, but does not report its cards."""
        return self.error not in ("", NO_DRIVER)


@dataclass(frozen=True)
class Disk:
    """The file system of one path, from statvfs. `error` is the error of a small test write, or "".

    `free_inodes` is negative if the file system does not count inodes.

    If the path is in a container's own file system, which is deleted with the container, `volume` is a mounted volume
    to use instead.
    """

    path: Identifier
    mount: Identifier
    free_bytes: int
    total_bytes: int
    free_inodes: Signed
    error: str = ""
    volume: Identifier = ""


@dataclass(frozen=True)
class OwnContainer:
    """The container that halfstep created on the host, in which everything runs.

    `image` is the container's image with its digest. `newer` is the image to which the image's name now refers, or ""
    if the name still refers to `image`.
    """

    engine: Identifier
    name: Identifier
    image: Identifier
    newer: Identifier = ""


@dataclass(frozen=True)
class Machine:
    """Identity and resources of the host. `container` is True if the agent runs in a container of any kind."""

    hostname: Identifier
    machine_id: Identifier
    system: Identifier
    shm_bytes: int
    clock_unix: float
    container: bool = False
    own_container: Optional[OwnContainer] = None
