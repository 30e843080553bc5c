"""Facts about the project's interpreter. The interpreter is run once. The result is stored until its files change."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from remote.payload.files.records import read_record, write_record
from remote.payload.probes.import_path import asking_argv, package_folders
from remote.payload.tree.state import Project, holds_synced_files
from remote.protocol.dataclass import dataclass, field
from remote.protocol.layout import PROJECTS
from remote.protocol.machine import Interpreter, Torch
from remote.protocol.regular import open_regular

DEADLINE_S = 20.0
PROJECT_VENVS = ("venv", ".venv")
IMAGE_PYTHONS = tuple(f"{prefix}/bin/python3" for prefix in ("/opt/conda", "/opt/pytorch", "/venv/main", "/opt/venv"))
"""Interpreters that have torch in the images of rented machines. The PATH of an SSH command does not contain them."""
PACKAGES = (
    "accelerate", "bitsandbytes", "datasets", "deepspeed", "flash-attn", "flash-attn-3", "huggingface-hub", "librosa",
    "lightning", "matplotlib", "mlflow", "mlflow-skinny", "numpy", "peft", "pytorch-lightning", "safetensors",
    "soundfile", "tensorboard", "tokenizers", "torch", "torchaudio", "torchcodec", "trackio", "transformers", "trl",
    "wandb",
)  # fmt: skip
VERSION_LINE = re.compile(r"^Version:\s*(\S+)", re.MULTILINE)
TORCH_VERSION = re.compile(r"^__version__(?:\s*:\s*\w+)?\s*=\s*['\"]([^'\"]+)['\"]", re.MULTILINE)
TORCH_CUDA = re.compile(r"^cuda(?:\s*:\s*[\w\[\], .]+)?\s*=\s*(None|['\"]([^'\"]+)['\"])", re.MULTILINE)


@dataclass(frozen=True)
class InterpreterFacts:
    """The answer of an interpreter.

    The answer is valid while `mark` (paths, mtimes, sizes and inodes of the interpreter's files) stays the same, and
    `paths`, its sys.path, while `paths_mark` (the same of these folders) does too.
    """

    mark: str
    version: Tuple[int, ...] = ()
    prefix: str = ""
    paths: Tuple[str, ...] = ()
    paths_mark: str = ""
    arch_list: Optional[Tuple[str, ...]] = None
    torch_version: str = ""


COPIED = re.compile(r"[^/]+/(data|runs/[^/]+/code)/")
"""The folders below `projects/` that contain only files that the laptop sent."""


@dataclass(frozen=True)
class StoredInterpreters:
    """environment.json: the facts of each interpreter by its path."""

    interpreters: Dict[str, InterpreterFacts] = field(default_factory=dict)


def find_python(python: str, project: Project) -> str:
    """Return the absolute path of the interpreter.

    A bare name is searched on PATH; a path is relative to the project's tree. If `python` is empty, the interpreter is
    that of the venv/ or .venv/ in the tree that was created on this host. Without a venv, it is python3, or an
    interpreter of the image if only that interpreter has torch. Raises InterpreterFault for an interpreter that came
    with the project: it would run code of the project before the proof, also on the laptop with `--host local`.
    """
    if not python:
        venvs = (os.path.join(project.tree, folder, "bin", "python") for folder in PROJECT_VENVS)
        found = (path for path in venvs if os.path.exists(path) and not came_with_project(path, project))
        return next(found, None) or _python_of_machine(project)
    if "/" not in python:
        return shutil.which(python) or python
    path = os.path.join(project.tree, os.path.expanduser(python))
    if came_with_project(path, project):
        raise InterpreterFault(f"{path}: it came with the project; `python:` must name one that was made on the host")
    return path


def came_with_project(path: str, project: Project) -> bool:
    """Return True if the laptop sent the interpreter, a link on its path, or a file of its venv.

    Data, and the copy of the code that a run uses, came with a project as a whole.
    """
    if any(COPIED.match(place) for place in _below_projects(path, project)):
        return True
    trees = (project.tree, os.path.realpath(project.tree))
    for tree, place in zip(trees, (os.path.normpath(path), os.path.realpath(path))):
        inside = os.path.relpath(place, tree)
        venv = os.path.dirname(os.path.dirname(inside))
        if not inside.startswith("../") and holds_synced_files(project, inside, *([venv] if venv else [])):
            return True
    return False


def _below_projects(path: str, project: Project) -> Iterator[str]:
    """Yield the path relative to the folder of all projects, as it is written and with its links followed."""
    folder = project.at(PROJECTS)
    yield os.path.relpath(os.path.normpath(path), folder)
    yield os.path.relpath(os.path.realpath(path), os.path.realpath(folder))


def _python_of_machine(project: Project) -> str:
    first = shutil.which("python3") or "python3"
    with_torch = [path for path in IMAGE_PYTHONS if os.path.exists(path) and _torch_beside(path)]
    if not with_torch or first in with_torch:
        return first
    try:
        paths = ask_interpreter(first).paths
    except InterpreterFault:
        paths = ()
    folders = package_folders(paths, None, project)
    return first if any(os.path.exists(os.path.join(path, "torch")) for path in folders) else with_torch[0]


def _torch_beside(python: str) -> bool:
    prefix = os.path.dirname(os.path.dirname(python))
    return bool(glob.glob(os.path.join(prefix, "lib", "python3*", "site-packages", "torch", "version.py")))


def read_interpreter(python: str, project: Project, python_path: Optional[str] = None) -> Interpreter:
    """Return the interpreter, with the packages that the training imports.

    `python_path` is the PYTHONPATH of the host's `env:`. Writes nothing and imports no torch, so `arch_list` is None
    before `probe_environment` has run.
    """
    known = read_record(project.at(project.layout.environment), StoredInterpreters) or StoredInterpreters()
    try:
        path = find_python(python, project)
    except InterpreterFault as fault:
        return Interpreter(python, python, error=str(fault))
    try:
        before = _up_to_date(path, known.interpreters.get(path))
    except InterpreterFault as fault:
        return Interpreter(path, os.path.realpath(path), error=str(fault))
    folders = package_folders(before.paths, python_path, project)
    packages = read_packages(folders)
    torch = _torch(folders, before, packages)
    return Interpreter(path, os.path.realpath(path), before.version, before.prefix, torch, packages)


def _up_to_date(path: str, known: Optional[InterpreterFacts]) -> InterpreterFacts:
    if known is None or known.mark != installation_stamp(path):
        return ask_interpreter(path)
    if known.paths_mark == _stamp(known.paths):
        return known
    return replace(ask_interpreter(path), arch_list=known.arch_list, torch_version=known.torch_version)


class InterpreterFault(Exception):
    """The interpreter cannot be run. The message explains why."""


def ask_interpreter(path: str) -> InterpreterFacts:
    """Run the interpreter to read its version and paths. Raises InterpreterFault if that fails."""
    try:
        done = subprocess.run(
            asking_argv(path), stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False
        )
    except FileNotFoundError:
        problem = "its target is missing (a dangling link)" if os.path.islink(path) else "no such file"
        raise InterpreterFault(f"{path}: {problem}")
    except subprocess.TimeoutExpired:
        raise InterpreterFault(f"{path}: no answer within {DEADLINE_S:.0f} s")
    except OSError as error:
        raise InterpreterFault(f"{path}: {error.strerror}")
    try:
        answer = json.loads(done.stdout)
        paths = tuple(answer["paths"])
        version = tuple(answer["version"])
        return InterpreterFacts(installation_stamp(path), version, answer["prefix"], paths, _stamp(paths))
    except (ValueError, KeyError, TypeError):
        lines = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise InterpreterFault(f"{path}: exit status {done.returncode}: {lines[-1] if lines else 'no output'}")


def installation_stamp(path: str) -> str:
    """Return a text that changes whenever the interpreter or its environment is replaced."""
    return _stamp([path, os.path.realpath(path), os.path.join(os.path.dirname(os.path.dirname(path)), "pyvenv.cfg")])


def _stamp(paths: Sequence[str]) -> str:
    lines = []
    for stamped in paths:
        try:
            status = os.stat(stamped)
        except OSError:
            lines.append(stamped)
        else:
            lines.append(f"{stamped} {status.st_mtime_ns} {status.st_size} {status.st_ino}")
    return "\n".join(lines)


def store_interpreter(cache: str, path: str, known: InterpreterFacts) -> None:
    """Store the interpreter's facts for later surveys."""
    before = read_record(cache, StoredInterpreters) or StoredInterpreters()
    write_record(cache, StoredInterpreters({**before.interpreters, path: known}))


def read_packages(paths: Tuple[str, ...]) -> Dict[str, str]:
    """Return the versions of the relevant packages from their metadata.

    The first folder on the path takes precedence.
    """
    versions: Dict[str, str] = {}
    for place in paths:
        for name, folder in _distributions(place):
            if name in PACKAGES and name not in versions:
                version = _version(folder)
                if version:
                    versions[name] = version
    return versions


def _distributions(folder: str) -> List[Tuple[str, str]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [
        (name.split("-")[0].replace("_", "-").replace(".", "-").lower(), os.path.join(folder, name))
        for name in sorted(names)
        if name.endswith((".dist-info", ".egg-info"))
    ]


def _version(folder: str) -> str:
    for name in ("METADATA", "PKG-INFO"):
        text = _read_start(os.path.join(folder, name))
        match = VERSION_LINE.search(text)
        if match:
            return match.group(1)
    return ""


def _read_start(path: str) -> str:
    """Return the beginning of a file, or "" without waiting if it is not a regular file, such as a FIFO."""
    try:
        with open_regular(path, follow=True) as file:
            return file.read(8192).decode("utf-8", "replace")
    except OSError:
        return ""


def _torch(folders: Tuple[str, ...], known: InterpreterFacts, packages: Dict[str, str]) -> Optional[Torch]:
    for place in folders:
        text = _read_start(os.path.join(place, "torch", "version.py"))
        version = TORCH_VERSION.search(text)
        if version:
            cuda = TORCH_CUDA.search(text)
            still = known.arch_list if known.torch_version == version.group(1) else None
            return Torch(version.group(1), cuda.group(2) if cuda else None, still)
    return Torch(packages["torch"]) if "torch" in packages else None
