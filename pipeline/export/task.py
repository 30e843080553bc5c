"""A task of an engine: its name, its uploads, and the shell commands that set up halfstep and run the config."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from remote.protocol.dataclass import dataclass

ARCHIVE = "project.tar.gz"
DATA = "data.tar"
REQUIREMENTS = "requirements.txt"
VOLUME = "/halfstep"
"""The mount point of the engine's persistent volume."""
FOLDER = "halfstep-task"
"""The folder on the machine, in the directory where the engine starts the commands."""
NO_GPU = "none"
DISK_GB = 100
"""The disk space for the environment, the base model and the checkpoints."""
UPLOAD_LIMIT_BYTES = 2 * 2**20
"""dstack's default upload limit: DSTACK_SERVER_CODE_UPLOAD_LIMIT in its server/settings.py."""


@dataclass(frozen=True)
class Task:
    """The parts of a task that both engines need.

    `uploads` maps a name in FOLDER to a local file. `gpu` is a card as the engine spells it, or NO_GPU; "" selects any
    card with 24 GB. `volume` is the name of a persistent volume, or "" for none. A volume keeps the checkpoints when a
    spot machine is preempted. `disk_gb` is the size of the machine's disk.
    """

    name: str
    uploads: Mapping[str, Path]
    setup: tuple[str, ...]
    run: tuple[str, ...]
    secrets: tuple[str, ...] = ()
    gpu: str = ""
    volume: str = ""
    disk_gb: int = DISK_GB


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


@dataclass(frozen=True)
class TaskData:
    """The data of a task, which is uploaded as an archive.

    `place` is the path of the data in the project, or "" if the data is outside the project. `digest` identifies the
    data. `file` is the name of the file if the data is one file, else "".
    """

    place: str
    digest: str
    file: str = ""


def run_commands(config: str, overrides: Sequence[str], data: TaskData | None, *, volume: bool) -> tuple[str, ...]:
    """Return the shell commands that unpack the project and its data and run all stages on the machine itself.

    The project's `.halfstep/` is kept, so that a restarted task resumes. With `volume`, the project and the work folder
    are on the volume. `config` is the config's path in the project, or the name of a shipped config.
    """
    root = f"{VOLUME}/project" if volume else "project"
    settings = [*overrides, *([f"host.workdir={VOLUME}/work"] if volume else [])]
    words = ["--host", "local", "--config", config, *(word for one in settings for word in ("--set", one))]
    commands = [
        "set -eu",
        f"cd {FOLDER}",
        "task=$PWD",
        *(_unpack(data) if data is not None else ()),
        f"mkdir -p {root}",
        f"find {root} -mindepth 1 -maxdepth 1 ! -name .halfstep -exec rm -rf {{}} +",
        f"tar -xzf {ARCHIVE} -C {root}",
        f"cd {root}",
    ]
    run = f'"$task/venv/bin/pipeline" run {shlex.join(words)}'
    if data is None:
        return (*commands, run)
    unpacked = f'"$task/{_folder(data)}"{shlex.quote(f"/{data.file}") if data.file else ""}'
    if not data.place:
        return (*commands, f"{run} --set data.path={unpacked}")
    place = shlex.quote(data.place)
    return (*commands, f'mkdir -p "$(dirname {place})"', f"ln -s {unpacked} {place}", run)


def _unpack(data: TaskData) -> tuple[str, ...]:
    """Return the shell commands that unpack the data once, and remove other data of an earlier task."""
    folder = _folder(data)
    return (
        f"find . -maxdepth 1 -name 'data-*' ! -name {folder} -exec rm -rf {{}} +",
        f"if [ ! -e {folder} ]; then",
        f"  mkdir {folder}-part",
        f"  tar -xf {DATA} -C {folder}-part",
        f"  mv {folder}-part {folder}",
        "fi",
    )


def _folder(data: TaskData) -> str:
    return f"data-{data.digest[:16]}"
