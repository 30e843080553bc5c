"""Select the torch to install: for the card and its driver, and with a torchaudio that was built for it."""

from __future__ import annotations

from collections.abc import Sequence

from fixers.setup.torch_builds import Choice, choose_build
from fixers.setup.torch_companions import (
    NEWEST_TORCHAUDIO,
    TORCHAUDIO,
    TORCHAUDIO_BUILDS,
    Demand,
    Minor,
    allows_all,
    build_of,
    needs_torchaudio,
    newest_release,
    parse_release,
)
from fixers.setup.torch_requirement import TorchRequirement
from remote.protocol.dataclass import dataclass
from remote.protocol.machine import Driver, Gpu, Torch
from remote.protocol.survey import Survey

CPU = "cpu"


@dataclass(frozen=True)
class Selection:
    """What to install: the requirement of torch, those of its companions, and the tag of the build, or ""."""

    torch: str
    companions: tuple[str, ...]
    build: str


def select_torch(
    torch: TorchRequirement,
    demands: Sequence[Demand],
    gpu: Gpu | None,
    survey: Survey,
    installed: Torch | None,
) -> Selection | None:
    """Return the newest torch that the requirement, the demands, the card and the driver allow, or None.

    An installed torch that fits the demands is kept. Without a card, pip chooses the newest release within the bounds.
    """
    driver = survey.driver
    default = CPU if not driver.version and survey.machine.system.startswith("Linux") else ""
    build = build_of(torch, demands)
    if installed is not None and _is_allowed(installed, torch, demands):
        release = parse_release(installed.version)
        return Selection(torch.requirement, _companions(demands, release), build or default)
    if gpu is not None and not gpu.assumed:
        choice = _choose(gpu, driver, torch, demands)
        if choice is None:
            return None
        return Selection(torch.at(choice.torch), _companions(demands, choice.torch), build or choice.tag)
    return _within_bounds(torch, demands, build or default)


def _within_bounds(torch: TorchRequirement, demands: Sequence[Demand], build: str) -> Selection:
    """Return the newest torch that has a torchaudio. The host's Python may need an older one."""
    if not needs_torchaudio(demands):
        return Selection(torch.requirement, (), build)
    newest = newest_release(torch, demands) or newest_release(torch, demands, newer=True) or NEWEST_TORCHAUDIO
    major, minor = min(newest, NEWEST_TORCHAUDIO)
    companions = (f"{TORCHAUDIO}<{major}.{minor + 1}",) if major == NEWEST_TORCHAUDIO[0] else ()
    return Selection(torch.until(newest), companions, build)


def _is_allowed(installed: Torch, torch: TorchRequirement, demands: Sequence[Demand]) -> bool:
    """Return True if the installed torch can stay: without torchaudio, pip judges this itself."""
    release = parse_release(installed.version)
    if release is None or not needs_torchaudio(demands):
        return True
    build = installed.version.partition("+")[2] or f"cu{(installed.cuda or '').replace('.', '')}"
    newer = build in TORCHAUDIO_BUILDS
    return allows_all(torch, demands, release, newer=newer)


def _choose(gpu: Gpu, driver: Driver, torch: TorchRequirement, demands: Sequence[Demand]) -> Choice | None:
    """Return the build. A torch newer than the newest torchaudio is chosen only if no other torch is allowed."""
    if not driver.version:
        return None
    exact = choose_build(
        gpu.capability, driver.version, lambda *release: allows_all(torch, demands, (release[0], release[1]))
    )
    if exact is not None or not needs_torchaudio(demands):
        return exact
    return choose_build(
        gpu.capability,
        driver.version,
        lambda *release: allows_all(torch, demands, (release[0], release[1]), newer=True),
        TORCHAUDIO_BUILDS,
    )


def _companions(demands: Sequence[Demand], release: Minor | None) -> tuple[str, ...]:
    """Return the requirement of the torchaudio for this torch, if torchaudio is demanded."""
    if not needs_torchaudio(demands) or release is None or release[0] != NEWEST_TORCHAUDIO[0]:
        return ()
    major, minor = min(release, NEWEST_TORCHAUDIO)
    return (f"{TORCHAUDIO}=={major}.{minor}.*",)
