"""environment: the project's own venv is made on the host, with a torch that this card and this driver can run.

What it does
    Only where the config says `fixers: {environment: create}`, or gives settings there: `base` (the Python it is made
    with), `requirements` (files of the project; left out: requirements.txt), `torch` (a release such as 2.11),
    `index` (where wheels for one CUDA lie, with {build} for the tag), `find_links` and `no_index` (a folder of wheels).
    It makes the venv that the host file's `python:` names, installs torch and then the requirements, and asks the new
    interpreter for its architectures. It comes to be whole or not at all.

Why
    A torch wheel holds code for some cards only: of torch 2.11, the builds for CUDA 12.8 and 13.0 begin at Turing and
    leave out Pascal and Volta. And its CUDA must be one that the driver carries: CUDA 13 takes driver 580. The errors
    are `no kernel image is available for execution on the device` and `The NVIDIA driver on your system is too old`.

Before
    python: venv/bin/python, and no such file on the host

After
    a venv with torch 2.13 for CUDA 12.9, for a TITAN RTX under driver 550

What it can break
    Nothing that is there: an environment that it did not make is never touched.

How to undo
    pipeline fix --undo removes the venv that it made
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from typing import Any

from fixers.frame.change import HostChange, Plan, mended
from fixers.frame.site import Site
from fixers.setup.torch_builds import Choice, choose_build, driver_carries, runs_on
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Driver, Gpu, Interpreter

name = "environment"
version = 1
safety = "unsafe"

ASKED = ("create", True)
REQUIREMENTS = "requirements.txt"
ARCHITECTURE = re.compile(r"(sm|compute)_(\d+)(\d)[af]?")


def plan(site: Site) -> Plan:
    """A venv that suits the card, where one is asked for and the interpreter does not."""
    survey = site.survey
    wish = site.wishes.get(name)
    settings: Mapping[str, Any] = wish if isinstance(wish, Mapping) else {}
    if survey is None or site.project is None or site.host is None or not (settings or wish in ASKED):
        return Plan()
    unfit = judge_interpreter(survey.interpreter, site.gpu, survey.driver)
    if unfit is None:
        return Plan()
    tree = posixpath.join(site.host.workdir, site.project.tree)
    venv = venv_of(survey.interpreter.path, tree)
    choice = _choice(site.gpu, survey.driver, settings)
    if venv is None or (site.gpu is not None and not site.gpu.assumed and choice is None):
        return Plan((unfit, _impossible(survey.interpreter, site.gpu, survey.driver, venv)))
    requirements = [p for p in _listed(settings, REQUIREMENTS) if p in set(site.tree.paths())]
    args: dict[str, Any] = {
        "project": site.project.key,
        "fixer": name,
        "venv": venv,
        "base": str(settings.get("base") or "python3"),
        "requirements": requirements,
        "torch": f"torch=={choice.torch[0]}.{choice.torch[1]}.*" if choice else str(settings.get("torch") or ""),
        "index": str(settings.get("index") or "").replace("{build}", choice.tag if choice else "cpu"),
        "find_links": str(settings.get("find_links") or ""),
        "no_index": bool(settings.get("no_index")),
        "capability": list(site.gpu.capability) if site.gpu is not None and not site.gpu.assumed else [],
        "environment": dict(site.environment),
    }
    what = f"torch {choice.torch[0]}.{choice.torch[1]} ({choice.tag})" if choice else "the requirements"
    change = HostChange(name, f"make {venv} on the host with {what}", "fix.environment.create", args, undo="fix.undo")
    return Plan((mended(unfit),), (change,))


def judge_interpreter(python: Interpreter, gpu: Gpu | None, driver: Driver) -> Finding | None:
    """Why the interpreter cannot train on the card; None where nothing speaks against it."""
    torch = python.torch
    if python.error:
        return _error(f"{python.path} does not run: {python.error}", python.path)
    if torch is None:
        return _error(f"{python.path} has no torch", python.path)
    if gpu is None or gpu.assumed:
        return None
    if torch.cuda is None:
        return _error(f"torch {torch.version} is a CPU build, and there is a {gpu.name}", python.path)
    if torch.arch_list and not _holds_code(torch.arch_list, gpu.capability):
        return _error(f"torch {torch.version} holds no code for {gpu.name}: {' '.join(torch.arch_list)}", python.path)
    major = torch.cuda.partition(".")[0]
    if driver.version and major.isdigit() and not driver_carries(driver.version, int(major)):
        return _error(f"driver {driver.version} does not carry CUDA {torch.cuda}, which torch wants", python.path)
    return None


def _holds_code(arch_list: tuple[str, ...], capability: tuple[int, int]) -> bool:
    """Machine code for the card, or PTX that its driver can compile."""
    found = [ARCHITECTURE.fullmatch(arch) for arch in arch_list]
    built = [(match[1], (int(match[2]), int(match[3]))) for match in found if match]
    codes = tuple(arch for kind, arch in built if kind == "sm")
    return runs_on(codes, capability) or any(kind == "compute" and arch <= capability for kind, arch in built)


def venv_of(interpreter: str, tree: str) -> str | None:
    """The venv, relative to the tree, whose Python the interpreter is; None for one that lies elsewhere."""
    inside = posixpath.relpath(interpreter, tree) if interpreter.startswith(tree + "/") else interpreter
    folder, _, program = inside.rpartition("/bin/")
    plain = bool(folder) and not posixpath.isabs(folder) and ".." not in folder.split("/")
    return folder if plain and program.startswith("python") else None


def _choice(gpu: Gpu | None, driver: Driver, settings: Mapping[str, Any]) -> Choice | None:
    if gpu is None or gpu.assumed or not driver.version:
        return None
    numbers = re.findall(r"\d+", str(settings.get("torch") or ""))
    newest = (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else (2, 13)
    return choose_build(gpu.capability, driver.version, newest)


def _listed(settings: Mapping[str, Any], default: str) -> list[str]:
    value = settings.get("requirements", default)
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)]


def _impossible(python: Interpreter, gpu: Gpu | None, driver: Driver, venv: str | None) -> Finding:
    if venv is None:
        message = f"{python.path} lies outside the project, so no venv is made there"
        return _error(message, python.path, "python: venv/bin/python in the host file")
    card = f"{gpu.name} ({gpu.capability[0]}.{gpu.capability[1]})" if gpu else "no card"
    message = f"no torch build from 2.8 on is for {card} under driver {driver.version or 'none'}"
    return _error(message, python.path, "update the driver, or make the environment by hand")


def _error(message: str, where: str, hint: str = "") -> Finding:
    return Finding(name, Severity.ERROR, message, where=where, hint=hint, exit_code=ExitCode.ENVIRONMENT)
