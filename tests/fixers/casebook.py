"""Read the cases of source fixers: cases/<fixer>/<case>/before.*, and after.* if the fixer must change it."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from fixers.frame.source_fixer import SourceFixer
from fixers.frame.target import Target
from fixers.registry import source_fixers
from remote.protocol.machine import Gpu

CASES = Path(__file__).parent / "cases"
TITAN_RTX = Gpu(0, "GPU-1", "NVIDIA TITAN RTX", (7, 5), 24 * 2**30)
AMPERE = Gpu(0, "GPU-2", "NVIDIA A100", (8, 0), 40 * 2**30)
KNOWN = {"trainer-arguments": {"transformers": "5.15.0", "trl": "0.20.0"}}
"""Versions in all cases of a fixer that changes nothing without a known version."""


@dataclass(frozen=True)
class Case:
    """One folder of cases/. `after` is None if the file must not change; `findings` are lines `LINE SEVERITY
    MESSAGE`."""

    fixer: SourceFixer
    name: str
    path: str
    before: bytes
    after: bytes | None
    target: Target
    findings: tuple[str, ...]


def read_cases() -> tuple[Case, ...]:
    """Return every case of every source fixer."""
    return tuple(
        _read_case(fixer, folder)
        for fixer in source_fixers()
        for folder in sorted((CASES / fixer.name).iterdir() if (CASES / fixer.name).is_dir() else ())
    )


def _read_case(fixer: SourceFixer, folder: Path) -> Case:
    """Read a case; `case.toml` may set path, packages, card (a capability, or false for none) and findings."""
    (before,) = folder.glob("before.*")
    after = list(folder.glob("after.*"))
    options_file = folder / "case.toml"
    options = tomllib.loads(options_file.read_text("utf-8")) if options_file.exists() else {}
    card = TITAN_RTX if options.get("card", 7.5) == 7.5 else AMPERE if options["card"] else None
    return Case(
        fixer,
        f"{fixer.name}/{folder.name}",
        options.get("path", f"src/train{before.suffix}"),
        before.read_bytes(),
        after[0].read_bytes() if after else None,
        Target(card, KNOWN.get(fixer.name, {}) | options.get("packages", {})),
        tuple(options.get("findings", ())),
    )
