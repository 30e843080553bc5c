"""A task of an engine: its name, its uploads, and the shell commands that set up halfstep and run the config."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ARCHIVE = "project.tar.gz"
DATA = "data"
REQUIREMENTS = "requirements.txt"
VOLUME = "/halfstep"
"""The mount point of the engine's persistent volume."""
FOLDER = "halfstep-task"
"""The folder on the machine, in the directory where the engine starts the commands."""
NO_GPU = "none"
UPLOAD_LIMIT_BYTES = 2 * 2**20
"""dstack's default upload limit: DSTACK_SERVER_CODE_UPLOAD_LIMIT in its server/settings.py."""


@dataclass(frozen=True)
class Task:
    """The parts of a task that both engines need.

    `uploads` maps a name in FOLDER to a local file or folder. `gpu` is a card as the engine spells it, or NO_GPU; ""
    selects any card with 24 GB. `volume` is the name of a persistent volume, or "" for none. A volume keeps the
    checkpoints when a spot machine is preempted.
    """

    name: str
    uploads: Mapping[str, Path]
    setup: tuple[str, ...]
    run: tuple[str, ...]
    secrets: tuple[str, ...] = ()
    gpu: str = ""
    volume: str = ""


def task_name(config: str) -> str:
    """Return a name that both engines accept: lower-case letters, digits and hyphens, at most 41 characters."""
    name = re.sub(r"[^a-z0-9]+", "-", config.lower()).strip("-") or "run"
    return (name if name[0].isalpha() else f"run-{name}")[:41].rstrip("-")


def setup_commands(wheel: str, *, requirements: bool) -> tuple[str, ...]:
    """Return the shell commands that install halfstep, and the project's requirements, into a virtual environment.

    Each command can be repeated. The environment needs Python 3.11 or newer; if the machine lacks it, `uv` downloads
    Python.
    """
    commands = [
        "set -eu",
        f"cd {FOLDER}",
        "if python3 -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))'; then",
        "  python3 -m venv venv",
        "else",
        "  python3 -m pip install --quiet --user uv",
        "  python3 -m uv venv --quiet --seed --allow-existing --python 3.12 venv",
        "fi",
        f"venv/bin/python -m pip install --quiet './{wheel}[train]'",
    ]
    if requirements:
        commands += [
            f"tar -xzf {ARCHIVE} {REQUIREMENTS}",
            f"venv/bin/python -m pip install --quiet --requirement {REQUIREMENTS}",
        ]
    return (*commands, "cd ..")


def run_commands(config: str, overrides: Sequence[str], *, volume: bool, data: str | None) -> tuple[str, ...]:
    """Return the shell commands that unpack the project and run all stages on the machine itself.

    The project's `.halfstep/` is kept, so that a restarted task resumes. With `volume`, the project and the work folder
    are on the volume. `config` is the config's path in the project, or the name of a built-in config. `data` is the
    path of the separately uploaded data in the project, "" if the data is outside the project, or None if there is no
    data.
    """
    root = f"{VOLUME}/project" if volume else "project"
    settings = [*overrides, *([f"host.workdir={VOLUME}/work"] if volume else [])]
    words = ["--host", "local", "--config", config, *(word for one in settings for word in ("--set", one))]
    commands = [
        "set -eu",
        f"cd {FOLDER}",
        "task=$PWD",
        f"mkdir -p {root}",
        f"find {root} -mindepth 1 -maxdepth 1 ! -name .halfstep -exec rm -rf {{}} +",
        f"tar -xzf {ARCHIVE} -C {root}",
        f"cd {root}",
    ]
    if data:
        name = shlex.quote(data)
        commands += [f'mkdir -p "$(dirname {name})"', f'ln -s "$task/{DATA}" {name}']
    outside = f' --set "data.path=$task/{DATA}"' if data == "" else ""
    return (*commands, f'"$task/venv/bin/pipeline" run {shlex.join(words)}{outside}')
