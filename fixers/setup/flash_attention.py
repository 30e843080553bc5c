"""flash-attention: an installed flash-attn that the card cannot run is reported.

What it does
    Reports an installed flash-attn if a card is below compute capability 8.0. The source fixers select `sdpa` by name,
    and a name takes precedence over an installed package.

Why
    FlashAttention 2 needs Ampere or newer. A model whose config selects FlashAttention uses it as soon as the package
    can be imported, and fails in the first forward pass with `FlashAttention only supports Ampere GPUs or newer`.

Before
    flash-attn 2.8.3 beside torch on a TITAN RTX

After
    attn_implementation="sdpa", whose memory-efficient kernel runs float16 on this card

What it can break
    Nothing: this fixer only reports.

How to undo
    Nothing to undo.
"""

from __future__ import annotations

from collections.abc import Mapping

from fixers.frame.change import Plan
from fixers.frame.findings import warning
from fixers.frame.site import Site
from remote.protocol.findings import Finding
from remote.protocol.machine import Gpu
from remote.protocol.shell import shell_command

name = "flash-attention"
safety = "safe"

AMPERE = (8, 0)
HOPPER = (9, 0)
PACKAGES = {"flash-attn": AMPERE, "flash_attn": AMPERE, "flash-attn-3": HOPPER, "flash_attn_3": HOPPER}


def plan(site: Site) -> Plan:
    """Return a warning for each installed flash-attn that the selected card cannot run."""
    if site.survey is None or site.gpu is None:
        return Plan()
    return Plan(judge_flash(site.survey.interpreter.packages, site.gpu))


def judge_flash(packages: Mapping[str, str], gpu: Gpu) -> tuple[Finding, ...]:
    """Return a warning for each installed package that needs a newer card."""
    findings: list[Finding] = []
    for package, since in PACKAGES.items():
        if package in packages and tuple(gpu.capability) < since:
            have, need = ".".join(map(str, gpu.capability)), ".".join(map(str, since))
            message = f"{package} {packages[package]} needs compute capability {need}; {gpu.name} has {have}"
            hint = shell_command("pip uninstall {}, or select sdpa by name", package.replace("_", "-"))
            findings.append(warning(name, message, "interpreter", hint))
    return tuple(findings)
