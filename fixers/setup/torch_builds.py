"""The published torch builds, the cards and drivers that they support, and the choice of a build.

Sources: architectures of the Linux x86-64 wheels from PyTorch's release matrices (pull requests 164471 for 2.9 and
2.10, 175253 for 2.11, 182849 for 2.12, 188443 for 2.13; the lists of 2.10 and 2.11 also as printed by `get_arch_list()`
in issue 182250; 2.8 is assumed to equal 2.9). Drivers: NVIDIA, CUDA Compatibility, table 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from remote.protocol.dataclass import dataclass
from remote.protocol.text import whole_number

Capability = tuple[int, int]

LEGACY: tuple[Capability, ...] = ((5, 0), (6, 0), (7, 0), (7, 5), (8, 0), (8, 6), (9, 0))
FROM_VOLTA: tuple[Capability, ...] = ((7, 0), (7, 5), (8, 0), (8, 6), (9, 0), (10, 0), (12, 0))
FROM_TURING: tuple[Capability, ...] = FROM_VOLTA[1:]


@dataclass(frozen=True)
class Build:
    """The wheels of torch `since` to `until` for one CUDA version.

    `tag` is the local version label, as in 2.11.0+cu126.
    """

    tag: str
    cuda: tuple[int, int]
    since: tuple[int, int]
    until: tuple[int, int]
    architectures: tuple[Capability, ...]


BUILDS = (
    Build("cu126", (12, 6), (2, 8), (2, 13), LEGACY),
    Build("cu128", (12, 8), (2, 8), (2, 10), FROM_VOLTA),
    Build("cu128", (12, 8), (2, 11), (2, 11), FROM_TURING),
    Build("cu129", (12, 9), (2, 12), (2, 13), FROM_TURING),
    Build("cu130", (13, 0), (2, 9), (2, 13), FROM_TURING),
    Build("cu132", (13, 2), (2, 12), (2, 13), FROM_TURING),
)
ARCHITECTURE = re.compile(r"(sm|compute)_([0-9]{1,8})([0-9])[af]?")
OLDEST_DRIVER = {11: 450, 12: 525, 13: 580}
"""The first driver that supports every toolkit of a CUDA major version."""


@dataclass(frozen=True)
class Choice:
    """A torch release and the tag of its build."""

    torch: tuple[int, int]
    tag: str


def choose_build(
    capability: Capability,
    driver: str,
    allowed: Callable[[int, int], bool] = lambda major, minor: True,
    tags: Collection[str] = (),
) -> Choice | None:
    """Return the newest allowed torch release that supports the card and the driver, with its newest CUDA build.

    With `tags`, only builds with these tags are considered. Return None if no build is suitable.
    """
    fitting = [
        Choice((build.since[0], minor), build.tag)
        for build in BUILDS
        if (not tags or build.tag in tags)
        and runs_on(build.architectures, capability)
        and driver_supports(driver, build.cuda[0])
        for minor in range(build.since[1], build.until[1] + 1)
        if allowed(build.since[0], minor)
    ]
    return max(fitting, key=lambda choice: (choice.torch, choice.tag), default=None)


def supports_card(arch_list: tuple[str, ...], capability: tuple[int, int]) -> bool:
    """Return True if the build has machine code for the card, or PTX that the driver can compile."""
    found = [ARCHITECTURE.fullmatch(arch) for arch in arch_list]
    built = [(match[1], (int(match[2]), int(match[3]))) for match in found if match]
    codes = tuple(arch for kind, arch in built if kind == "sm")
    return runs_on(codes, capability) or any(kind == "compute" and arch <= capability for kind, arch in built)


def runs_on(architectures: tuple[Capability, ...], capability: Capability) -> bool:
    """Return True if an architecture has the card's major version, and the card's minor version or a lower one."""
    return any(built[0] == capability[0] and built[1] <= capability[1] for built in architectures)


def driver_supports(driver: str, cuda_major: int) -> bool:
    """Return True if the driver supports this CUDA major version."""
    oldest = OLDEST_DRIVER.get(cuda_major)
    branch = whole_number(driver.partition(".")[0])
    return oldest is not None and branch is not None and branch >= oldest
