"""The torch releases for which the torchaudio and torchvision of the requirements exist.

torchaudio 2.10 and 2.11 name no torch in their metadata, so pip combines them with any torch. The import then fails
with `Detected that PyTorch and TorchAudio were compiled with different CUDA versions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain

from fixers.frame.site import Tree
from fixers.setup.project_packages import PYPROJECT, SEPARATORS, ProjectPackages, names_of, read_files
from fixers.setup.torch_requirement import TorchRequirement, parse_specifier
from remote.protocol.dataclass import dataclass

Minor = tuple[int, int]

TORCH, TORCHAUDIO, TORCHVISION = "torch", "torchaudio", "torchvision"
NEWEST_TORCHAUDIO: Minor = (2, 11)
"""Up to this release, each release of torchaudio was built for the torch release of the same number."""
TORCHAUDIO_BUILDS = ("cpu", "cu126", "cu128", "cu130")
"""The builds of the newest torchaudio. Beside a newer torch, it needs a build for the same CUDA version."""
NEWEST_PINNING_TORCHVISION = 13
"""Up to torch 2.13, torchvision 0.N names its torch 2.(N - 15) exactly, and 0.N + 1 its torch 1.N before."""
OLDEST_PAIRED: Minor = (1, 4)
"""Before this release, the numbers of the packages follow no rule."""
RELEASES: tuple[Minor, ...] = (*((1, minor) for minor in range(14)), *((2, minor) for minor in range(100)))
LINE = re.compile(r"\s*(torch|torchaudio|torchvision)(?![\w.-])\s*([^;#]*)(;?)", re.IGNORECASE)
OPTIONS = re.compile(r"\s--?\w.*|\\$")


@dataclass(frozen=True)
class Demand:
    """A requirement of torch, torchaudio or torchvision: its versions, its text, and its file and line."""

    package: str
    versions: TorchRequirement
    text: str
    where: str

    def allows(self, torch: Minor, *, newer: bool = False) -> bool:
        """Return True if a release of the package that the demand allows exists for this release of torch.

        With `newer`, the newest torchaudio also counts for each newer torch.
        """
        major, minor = torch
        if self.package == TORCH:
            return self.versions.allows(major, minor)
        if torch < OLDEST_PAIRED:
            return True
        if self.package == TORCHVISION:
            of_torch = (0, minor + 15 if major == 2 else minor + 1)
            return (major == 2 and minor > NEWEST_PINNING_TORCHVISION) or self.versions.allows(*of_torch)
        made_for = min(torch, NEWEST_TORCHAUDIO) if newer else torch
        return made_for <= NEWEST_TORCHAUDIO and self.versions.allows(*(made_for if major == 2 else (0, minor)))


def read_demands(tree: Tree, packages: ProjectPackages) -> tuple[Demand, ...]:
    """Return the requirements and constraints of torch, and of torchaudio and torchvision if they are required.

    The versions of a requirement with an environment marker are not considered. Raises NoPackages like `read_files`.
    """
    required = {TORCH, *names_of(tree, packages)}
    lines = chain.from_iterable(
        ((line, f"{path}:{number}") for number, line in enumerate(data.decode("utf-8", "replace").split("\n"), 1))
        for path, data in read_files(tree, packages.files)
    )
    found = chain(lines, ((package, PYPROJECT) for package in packages.packages))
    return tuple(demand for demand in _parsed(found) if demand.package in required)


def _parsed(lines: Iterator[tuple[str, str]]) -> Iterator[Demand]:
    for line, where in lines:
        match = LINE.match(line)
        if match is None:
            continue
        package = SEPARATORS.sub("-", match[1]).lower()
        specifier = OPTIONS.sub("", match[2]).strip().strip("()").strip()
        versions = parse_specifier(specifier) if not match[3] else None
        yield Demand(package, versions or TorchRequirement(package), f"{match[1]}{specifier}".strip(), where)


def newest_release(torch: TorchRequirement, demands: Sequence[Demand], *, newer: bool = False) -> Minor | None:
    """Return the newest torch release that the requirement and all demands allow, or None if they exclude each other.

    With `newer`, the newest torchaudio also counts for each newer torch.
    """
    fitting = (each for each in reversed(RELEASES) if allows_all(torch, demands, each, newer=newer))
    return next(fitting, None)


def allows_all(torch: TorchRequirement, demands: Sequence[Demand], release: Minor, *, newer: bool = False) -> bool:
    """Return True if the requirement and all demands allow this torch release."""
    return torch.allows(*release) and all(demand.allows(release, newer=newer) for demand in demands)


def needs_torchaudio(demands: Sequence[Demand]) -> bool:
    """Return True if torchaudio is among the requirements."""
    return any(demand.package == TORCHAUDIO for demand in demands)


def build_of(torch: TorchRequirement, demands: Sequence[Demand]) -> str:
    """Return the tag of the torch build that the requirement or a demand names, such as cu126, or ""."""
    named = (torch, *(demand.versions for demand in demands if demand.package == TORCH))
    return next((versions.build for versions in named if versions.build), "")


def name_limits(demands: Sequence[Demand]) -> str:
    """Return the demands that limit torch, each with its file and line."""
    limits = [each for each in demands if each.package == TORCHAUDIO or each.versions.clauses]
    return ", ".join(f"{demand.text} ({demand.where})" for demand in limits)


def parse_release(version: str) -> Minor | None:
    """Return the release of an installed torch, such as (2, 11) for 2.11.0+cu128, or None if it is unknown."""
    match = re.match(r"([0-9]{1,8})\.([0-9]{1,8})", version)
    return (int(match[1]), int(match[2])) if match else None
