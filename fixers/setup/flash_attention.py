"""flash-attention: flash-attn is installed, and the card cannot run it.

What it does
    Where the interpreter has flash-attn and a card is below compute capability 8.0, it says so, and which models would
    choose it by themselves. The source fixers ask for `sdpa` by name, which wins over what is installed.

Why
    FlashAttention 2 runs from Ampere on. Models whose config asks for it take it as soon as the package can be
    imported, and end in the first forward pass with `FlashAttention only supports Ampere GPUs or newer`.

Before
    flash-attn 2.8.3 beside torch on a TITAN RTX

After
    attn_implementation="sdpa", whose memory-efficient kernel runs float16 on this card

What it can break
    Nothing: it only tells. A package is removed by its owner.

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

name = "flash-attention"
version = 1
safety = "safe"

AMPERE = (8, 0)
HOPPER = (9, 0)
PACKAGES = {"flash-attn": AMPERE, "flash_attn": AMPERE, "flash-attn-3": HOPPER, "flash_attn_3": HOPPER}


def plan(site: Site) -> Plan:
    """A warning for each flash-attn that a chosen card cannot run."""
    if site.survey is None or site.gpu is None:
        return Plan()
    return Plan(judge_flash(site.survey.interpreter.packages, site.gpu))


def judge_flash(packages: Mapping[str, str], gpu: Gpu) -> tuple[Finding, ...]:
    """What is installed and asks for a newer card."""
    findings: list[Finding] = []
    for package, since in PACKAGES.items():
        if package in packages and tuple(gpu.capability) < since:
            have, need = ".".join(map(str, gpu.capability)), ".".join(map(str, since))
            message = f"{package} {packages[package]} needs compute capability {need}; {gpu.name} has {have}"
            hint = f"pip uninstall {package.replace('_', '-')}, or ask for sdpa by name"
            findings.append(warning(name, message, "interpreter", hint))
    return tuple(findings)
