"""environment: a venv is created on the host, with a torch build that supports its card and driver.

What it does
    Runs only with `fixers: {environment: create}` or with settings:

    * `base`: the Python that creates the venv, by its name or absolute path. A file of the project is refused.
    * `requirements`: files of the project. The default is requirements.txt, or the dependencies in pyproject.toml.
    * `torch`: a version ("2.13.0"), a specifier (">=2.4,<2.14") or a requirement ("torch==2.13.0+cu126").
    * `index`: a package index for torch only, with {build} in place of the build's tag.
    * `find_links` and `no_index`: a folder of wheels.

    Creates the venv of `python:` in the host file, or venv/ in the project's folder on the host. Installs torch, the
    requirements and, for the built-in trainer, its packages. Packages that import torch while they are built, such as
    flash-attn and mamba-ssm, are installed after torch. flash-attn is omitted if the card cannot run it. The project
    itself is not installed as a package; put `-e .` into requirements.txt to install it. The next run resumes an
    interrupted installation. If the requirements or `torch` change, the next run installs the difference into the
    existing venv, and removes packages that halfstep installed there and that the requirements no longer need.
    If the project lists no requirements and its script imports packages other than torch, nothing is installed: an
    error names the packages. It is a warning if they may be in an existing venv or in PYTHONPATH.

    The torch build matches the card and its driver. Without a driver, it is the CPU build. torchaudio needs the torch
    release of its own number: without versions, `torch` and `torchaudio` become 2.11, the newest torchaudio.
    Requirements of torch, torchaudio and torchvision that exclude each other are an error. The builds come from
    download.pytorch.org/whl. If that server is unreachable, the host's default index is used; for Linux on x86-64, its
    torch is a CUDA build of several GB. The size is shown before the download and compared with the free disk space.

Why
    A torch wheel contains code for some cards only: the builds of torch 2.11 for CUDA 12.8 and 13.0 support Turing and
    newer cards, but not Pascal and Volta. The driver must also support the build's CUDA version: CUDA 13 needs driver
    580. The errors are `no kernel image is available for execution on the device` and `The NVIDIA driver on your system
    is too old`.

Before
    a host whose only Python has no torch

After
    a venv with torch 2.13 for CUDA 12.9, for a TITAN RTX under driver 550

What it can break
    Nothing: an environment that halfstep did not create is never changed.

How to undo
    pipeline fix --undo removes the venv
"""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from fixers.frame.change import HostChange, Plan
from fixers.frame.disk_tree import DiskTree
from fixers.frame.findings import error, resolved
from fixers.frame.site import Site
from fixers.setup.flash_attention import PACKAGES
from fixers.setup.imported_modules import judge_only_torch
from fixers.setup.project_packages import NoPackages, ProjectPackages, read_files, read_packages
from fixers.setup.torch_builds import driver_supports, supports_card
from fixers.setup.torch_companions import Demand, name_limits, newest_release, read_demands
from fixers.setup.torch_requirement import BadTorch, TorchRequirement, parse_torch_requirement
from fixers.setup.torch_selection import CPU, Selection, select_torch
from fixers.setup.trainer_packages import TRAINER_REQUIREMENTS
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.frames import parse_value
from remote.protocol.machine import Driver, Gpu, Interpreter
from remote.protocol.survey import Survey
from remote.protocol.text import whole_number

name = "environment"
safety = "unsafe"

BASE = "python3"
REQUESTED = ("create", True)
MARK = "halfstep.json"
MOST_MARK_BYTES = 2**20
VENV = "venv"
"""The venv's folder, relative to the project, if no interpreter is configured."""
OFFICIAL_INDEX = "https://download.pytorch.org/whl/{build}"
"""PyTorch's package indexes, one for each build (https://pytorch.org/get-started/locally)."""


def plan(site: Site) -> Plan:
    """Plan a venv if the config requests one and the interpreter cannot train on the card or is incomplete."""
    survey, setting = site.survey, site.settings.get(name)
    if survey is None or site.project is None or site.host is None or not is_requested(setting):
        return Plan()
    tree = posixpath.join(site.host.workdir, site.project.tree)
    venv = _venv_for(site, venv_of(survey.interpreter.path, tree))
    unfit = judge_interpreter(survey.interpreter, site.gpu, survey.driver)
    if unfit is not None:
        return _planned(site, survey, venv, unfit, keep=False)
    incomplete = _judge_mark(site, site.host, tree, venv)
    return _planned(site, survey, venv, incomplete, keep=True) if incomplete is not None else Plan()


def _planned(site: Site, survey: Survey, venv: str | None, unfit: Finding, *, keep: bool) -> Plan:
    """Plan the installation that resolves the finding. With `keep`, packages are added to the existing venv."""
    settings = _settings(site)
    wanted = _read_settings(site, settings)
    if isinstance(wanted, Finding):
        return Plan((unfit, wanted))
    torch, packages = wanted
    demands = read_demands(site.tree, packages)
    if (excluded := _judge_demands(torch, demands)) is not None:
        return Plan((unfit, excluded))
    installed = survey.interpreter.torch if keep else None
    selection = select_torch(torch, demands, site.gpu, survey, installed)
    if venv is None or selection is None:
        return Plan((unfit, _impossible(survey.interpreter, site.gpu, survey.driver, venv, name_limits(demands))))
    by_url = torch.by_url
    args = {**_request(site, settings, selection, packages, by_url=by_url), "contents": contents_of(site), "keep": keep}
    summary = _summary(venv, args, site)
    change = HostChange(name, summary, "fix.environment.create", {**args, "venv": venv}, undo="fix.undo")
    lists_packages = packages.files or packages.packages or settings.get("requirements") is not None
    without = () if lists_packages or _of_trainer(site) else (judge_only_torch(site.tree, site.config, keep=keep),)
    if any(finding.severity is Severity.ERROR for finding in without):
        return Plan(without)
    return Plan((resolved(unfit), *without), (change,))


def _settings(site: Site) -> Mapping[str, Any]:
    setting = site.settings.get(name)
    return setting if isinstance(setting, Mapping) else {}


def contents_of(site: Site) -> str:
    """Return a digest of what the environment must contain: the requested torch, all requirements files, the packages.

    Return "" if no environment is requested, or if the requirements cannot be read.
    """
    settings = _settings(site)
    if not is_requested(site.settings.get(name)):
        return ""
    try:
        packages = read_packages(site.tree, settings)
    except NoPackages:
        return ""
    files = [(path, hashlib.sha256(data).hexdigest()) for path, data in read_files(site.tree, packages.files)]
    wanted = [settings.get("torch"), files, packages.packages, _of_trainer(site), _unusable_flash(site.gpu)]
    return hashlib.sha256(json.dumps(wanted, default=str).encode()).hexdigest()


def is_requested(setting: object) -> bool:
    """Return True if `fixers.environment` in the config requests an environment."""
    return bool(setting) if isinstance(setting, Mapping) else setting in REQUESTED


def _read_settings(site: Site, settings: Mapping[str, Any]) -> tuple[TorchRequirement, ProjectPackages] | Finding:
    """Return torch and the packages to install, or an error if a setting is invalid."""
    base = str(settings.get("base") or BASE)
    if "/" in base and not posixpath.isabs(base):
        message = f"{base} is a file of the project, which may run only in the training"
        return _error(message, "fixers.environment.base", f"base: {BASE}")
    try:
        return parse_torch_requirement(settings.get("torch")), read_packages(site.tree, settings)
    except BadTorch as bad:
        hint = f'torch: "{bad.nearest}"' if bad.nearest else ""
        return _error(str(bad), "fixers.environment.torch", hint)
    except NoPackages as bad:
        return _error(bad.message, bad.where, bad.hint)


def _venv_for(site: Site, of_interpreter: str | None) -> str | None:
    """Return the venv to create, relative to the tree, or None if the configured interpreter is outside the project."""
    return of_interpreter or (None if site.python else VENV)


def _request(
    site: Site, settings: Mapping[str, Any], selection: Selection, packages: ProjectPackages, *, by_url: bool
) -> dict[str, Any]:
    """Return the arguments of the payload operation, except the path of the venv."""
    assert site.project is not None
    build = selection.build
    index = str(settings.get("index") or "").replace("{build}", build or CPU)
    capability = site.gpu.capability if site.gpu is not None and not site.gpu.assumed else ()
    return {
        "project": site.project.key,
        "fixer": name,
        "base": str(settings.get("base") or BASE),
        "requirements": list(packages.files),
        "packages": [*packages.packages, *_of_trainer(site)],
        "torch": selection.torch,
        "companions": list(selection.companions),
        "index": index,
        "build_index": OFFICIAL_INDEX.replace("{build}", build) if build and not (index or by_url) else "",
        "find_links": str(settings.get("find_links") or ""),
        "no_index": bool(settings.get("no_index")),
        "capability": list(capability),
        "environment": dict(site.environment),
        "left_out": _unusable_flash(site.gpu),
        "laptop_root": _laptop_root(site),
    }


def _laptop_root(site: Site) -> str:
    """Return the project's folder on the laptop, or "" for a tree in memory. The host may be this machine."""
    return str(site.tree.root) if isinstance(site.tree, DiskTree) else ""


def _of_trainer(site: Site) -> tuple[str, ...]:
    """Return the requirements of the built-in trainer, or () if the config has a command."""
    return tuple(TRAINER_REQUIREMENTS.values()) if site.config.get("command", "") is None else ()


def _unusable_flash(gpu: Gpu | None) -> list[str]:
    """Return the names of the flash-attn packages that the card cannot run."""
    return [name for name, since in PACKAGES.items() if gpu is None or tuple(gpu.capability) < since]


def _summary(venv: str, args: Mapping[str, Any], site: Site) -> str:
    build = args["build_index"].rpartition("/")[2]
    why = f": the host has no {site.gpu.name}" if build == CPU and site.gpu is not None and site.gpu.assumed else ""
    count = len(args["packages"])
    more = [*args["requirements"], *([f"{count} package{'s' * (count != 1)}"] if count else [])]
    torch = args["torch"] + (f" ({build}{why})" if build else "")
    if args["keep"]:
        return f"install {', '.join(more or [torch])} into {venv} on the host"
    return f"create {venv} on the host with {', '.join([torch, *args['companions'], *more])}"


def _judge_mark(site: Site, host: Host, tree: str, venv: str | None) -> Finding | None:
    """Return an error if halfstep's installation into this venv was interrupted, or was made for other requirements."""
    if venv is None:
        return None
    where, contents = posixpath.join(tree, venv, MARK), contents_of(site)
    try:
        data = host.read_bytes(where)
        mark: Any = parse_value(data) if len(data) <= MOST_MARK_BYTES else None
    except (FileNotFoundError, ValueError):
        return None
    state = mark.get("state") if isinstance(mark, Mapping) else None
    if state == "unfinished":
        return _error(f"{venv} is incomplete: its installation was interrupted", where)
    if state == "done" and contents and mark.get("contents") != contents:
        return _error(f"the requirements have changed since {venv} was made", where)
    return None


def judge_interpreter(python: Interpreter, gpu: Gpu | None, driver: Driver) -> Finding | None:
    """Return an error if the interpreter cannot train on the card, else None."""
    torch = python.torch
    if python.error:
        return _error(f"{python.path} does not run: {python.error}", python.path)
    if torch is None:
        return _error(f"{python.path} has no torch", python.path)
    if gpu is None or gpu.assumed:
        return None
    if torch.cuda is None:
        return _error(f"torch {torch.version} is a CPU build, but the host has a {gpu.name}", python.path)
    if torch.arch_list and not supports_card(torch.arch_list, gpu.capability):
        return _error(
            f"torch {torch.version} contains no code for {gpu.name}: {' '.join(torch.arch_list)}", python.path
        )
    major = whole_number(torch.cuda.partition(".")[0])
    if driver.version and major is not None and not driver_supports(driver.version, major):
        return _error(f"driver {driver.version} does not support CUDA {torch.cuda}, which torch needs", python.path)
    return None


def venv_of(interpreter: str, tree: str) -> str | None:
    """Return the venv of the interpreter, relative to the tree, or None if it is outside the tree."""
    inside = posixpath.relpath(interpreter, tree) if interpreter.startswith(tree + "/") else interpreter
    folder, _, program = inside.rpartition("/bin/")
    plain = bool(folder) and not posixpath.isabs(folder) and ".." not in folder.split("/")
    return folder if plain and program.startswith("python") else None


def _judge_demands(torch: TorchRequirement, demands: Sequence[Demand]) -> Finding | None:
    """Return an error if the requirements and the setting exclude each other for every release of torch."""
    if newest_release(torch, demands, newer=True) is not None or newest_release(torch, ()) is None:
        return None
    setting = f", and fixers.environment.torch is {torch.requirement}" if torch.clauses else ""
    message = f"no release of torch fits all requirements: {name_limits(demands)}{setting}"
    hint = "torchaudio X.Y needs torch X.Y, and torchvision 0.(Y + 15) needs torch 2.Y: correct one of them"
    return _error(message, demands[0].where, hint)


def _impossible(python: Interpreter, gpu: Gpu | None, driver: Driver, venv: str | None, limits: str) -> Finding:
    if venv is None:
        message = f"{python.path} is outside the project, so no venv is created there"
        return _error(message, python.path, "python: venv/bin/python in the host file")
    card = f"{gpu.name} ({gpu.capability[0]}.{gpu.capability[1]})" if gpu else "no card"
    allowed = f"the config allows, and {limits}," if limits else "the config allows"
    message = f"no torch build since 2.8 that {allowed} supports {card} with driver {driver.version or 'none'}"
    return _error(message, python.path, "update the driver, or create the environment by hand")


def _error(message: str, where: str, hint: str = "") -> Finding:
    return error(name, message, where, hint, exit_code=ExitCode.ENVIRONMENT)
