"""The environment in which a page's commands are typed: a folder, an empty home, and the SSH servers of the page."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.docs.page import ROOT, File, read_page, steps
from tests.lab.cards import write_nvidia_smi
from tests.lab.slurm import Slurm
from tests.lab.sshd import Sshd

SCRIPT = "train.py"
OWN_SCRIPT = ("README.md", "docs/own-script.md", "docs/slurm.md")
"""Pages about the reader's own script: the tests use the script of the tutorial."""

ALIASES = {"docs/slurm.md": ("cluster",)}
"""The SSH aliases that each page needs; all other pages need `titan`."""

WITH_SLURM = ("docs/slurm.md",)
"""Pages whose host is the login node of a Slurm cluster."""

WITH_CARD = ("docs/hosts.md",)
"""Pages whose host has a TITAN RTX, according to its `nvidia-smi`."""


def own_script() -> str:
    """Return the script of the tutorial in a version that runs on a machine without a card."""
    files = {step.name: step.text for step in steps(read_page("docs/tutorial.md")) if isinstance(step, File)}
    return files[SCRIPT].replace("bf16=True, ", "")


def environment_of(
    name: str, root: Path, start_sshd: Callable[..., Sshd], cluster: Slurm | None = None
) -> dict[str, str]:
    """Return the environment of the reader of a page, whose ~/.ssh/config leads to a server."""
    home, programs, there = root / "home", root / "bin", root / "there"
    programs.mkdir()
    for command in ("pipeline", "halfstep"):
        (programs / command).write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m pipeline "$@"\n')
        (programs / command).chmod(0o755)
    python = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    if name in WITH_CARD:
        write_nvidia_smi(there)
    slurm = cluster.environment if cluster else {}
    server = start_sshd(environment={"PATH": f"{there}:{python}", "OMP_NUM_THREADS": "1", **slurm})
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    aliases = ALIASES.get(name, ("titan",))
    (home / ".ssh" / "config").write_text("".join(server.ssh_config(alias) for alias in aliases))
    return {
        "HOME": str(home),
        "PATH": f"{programs}:{python}",
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
