"""Checks of a host against the needs of a run: interpreter, torch build, driver, cards, disk, clock. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fixers.setup.project_packages import REQUIREMENTS
from fixers.setup.trainer_packages import requirements_for
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report
from remote.protocol.layout import OTHER_WORKDIR, WORKDIR_OF_VOLUME
from remote.protocol.machine import Disk, Driver, Gpu, Interpreter, Machine, OwnContainer
from remote.protocol.quantities import size
from remote.protocol.shell import install_on_host, on_host, shell_command
from remote.protocol.survey import Survey
from remote.protocol.text import whole_number

OLDEST_PYTHON = (3, 9)
OLDEST_PYTHON_OF_TRAINER = (3, 10)
"""The oldest Python that transformers 5 supports."""
OLDEST_TORCH = (2, 6)
"""Older versions of torch.load can run code from a checkpoint (CVE-2025-32434); transformers 5 rejects them."""
ON_HOST = "nvidia-smi   (on the host)"
NO_DRIVER_HINT = "install the NVIDIA driver, if the host has a GPU"
ON_CPU = f"{ON_HOST}; to train on its CPU: pipeline run --set 'host.gpus=[]'"
OCCUPIED_SHARE = 0.10
CLOCK_SKEW_S = 60.0
FULL_WORDS = ("no space", "quota")
REMOVALS = {"docker": "docker rm -f {}", "podman": "podman rm -f {}", "apptainer": "apptainer instance stop {}"}
CREATES_ENVIRONMENT = "pipeline run"
NEW_ENVIRONMENT = f"{CREATES_ENVIRONMENT} --set fixers.environment=create"
"""The command that creates a virtual environment on the host, with a torch build for the card."""
TRAINER_PACKAGES = ("transformers", "peft", "accelerate", "tensorboard", "soundfile")


@dataclass(frozen=True)
class Need:
    """The requirements of a run.

    `card_required`: a host without a card is an error, see `requires_card`. Less than `free_bytes` of free disk space
    is an error; less than `usual_bytes` is a warning. `host_file` is the file that contains the key `python:`.
    `creates_environment`: `run` creates a virtual environment if the interpreter has no torch. `lists_packages`: the
    packages of a new environment are known, because they are the trainer's or are listed in a file of the project.
    Otherwise, `script_packages` are the packages that the script imports, as far as they are known.
    """

    free_bytes: int
    built_in_trainer: bool
    card_required: bool = False
    usual_bytes: int = 0
    host_file: str = "host.python"
    creates_environment: bool = False
    lists_packages: bool = True
    script_packages: tuple[str, ...] = ()


def judge_host(survey: Survey, need: Need, now_unix: float | None = None) -> Report:
    """Return every problem of the host for this run."""
    found = [
        *judge_interpreter(survey.interpreter, need),
        *judge_cards(survey.driver, survey.gpus, survey.interpreter, need),
        *judge_disk(survey.disk, need),
        *judge_container(survey.machine.own_container),
        *judge_clock(survey.machine, now_unix),
    ]
    return Report(tuple(found), tuple(facts_of(survey)))


def facts_of(survey: Survey) -> Iterator[tuple[str, str]]:
    """Yield facts about the environment as (name, value).

    The facts are shown to the user and are inputs of the stage.
    """
    python = survey.interpreter
    yield "python", ".".join(map(str, python.version[:3])) or "none"
    yield "interpreter", python.path
    yield "torch", python.torch.version if python.torch else "none"
    yield "driver", survey.driver.version or "none"
    yield "gpus", ", ".join(_card(gpu) for gpu in survey.gpus) or "none"
    if survey.machine.own_container is not None:
        yield "image", survey.machine.own_container.image


def _card(gpu: Gpu) -> str:
    return f"{card_name(gpu)} (assumed)" if gpu.assumed else f"{card_name(gpu)} {gpu.uuid}"


def card_name(gpu: Gpu) -> str:
    """Return name and capability: 'TITAN RTX 7.5'."""
    capability = ".".join(map(str, gpu.capability))
    return gpu.name if gpu.name.endswith(f" {capability}") else f"{gpu.name} {capability}"


def judge_interpreter(python: Interpreter, need: Need) -> Iterator[Finding]:
    """Yield the problems of the interpreter: it does not run, is too old, or lacks packages."""
    if python.error:
        message = f"{python.path} does not run: {python.error}{_will_be_created(need)}"
        hint = CREATES_ENVIRONMENT if need.creates_environment else "set `python:` to the interpreter with torch"
        yield Finding.error("python", message, need.host_file, hint, exit_code=ExitCode.ENVIRONMENT)
        return
    oldest = OLDEST_PYTHON_OF_TRAINER if need.built_in_trainer else OLDEST_PYTHON
    if python.version < oldest:
        found, wanted = ".".join(map(str, python.version[:2])), ".".join(map(str, oldest))
        yield Finding.error(
            "python",
            f"found Python {found}, need {wanted} or newer",
            need.host_file,
            f"set `python:` to a Python {wanted} or newer",
            exit_code=ExitCode.ENVIRONMENT,
        )
    if python.torch is None:
        unlisted = (
            "" if need.lists_packages else "; a new environment needs a requirements.txt with the script's packages"
        )
        message = f"{python.path} has no torch{_will_be_created(need) or unlisted}"
        hint = CREATES_ENVIRONMENT if need.creates_environment else _new_environment(need)
        yield Finding.error("torch", message, python.path, hint, exit_code=ExitCode.ENVIRONMENT)
    elif _version(python.torch.version) < OLDEST_TORCH and need.built_in_trainer:
        wanted = ".".join(map(str, OLDEST_TORCH))
        yield Finding.error(
            "torch",
            f"found torch {python.torch.version}, need {wanted} or newer",
            python.path,
            "",
            exit_code=ExitCode.ENVIRONMENT,
        )
    if need.built_in_trainer:
        missing = [name for name in TRAINER_PACKAGES if name not in python.packages]
        if missing:
            message = f"{python.path} has no {', '.join(missing)}; the built-in trainer needs them"
            yield Finding.error(
                "packages", message, python.path, _install_hint(python, missing), exit_code=ExitCode.ENVIRONMENT
            )


def _will_be_created(need: Need) -> str:
    return "; `run` creates an environment" if need.creates_environment else ""


def _new_environment(need: Need) -> str:
    """Return what creates an environment with torch: the command, after a requirements file if there is none."""
    if need.lists_packages:
        return NEW_ENVIRONMENT
    listed = f", one package a line: {', '.join(need.script_packages)}" if need.script_packages else ""
    return f"write {REQUIREMENTS}{listed}; then: {NEW_ENVIRONMENT}"


def _install_hint(python: Interpreter, packages: list[str]) -> str:
    """Return the command that installs the packages, with the version bounds of the trainer."""
    return install_on_host(python.path, requirements_for(packages))


def _version(text: str) -> tuple[int, ...]:
    numbers = []
    for part in text.split("+", maxsplit=1)[0].split("."):
        number = whole_number(part)
        if number is None:
            break
        numbers.append(number)
    return tuple(numbers)


def judge_cards(driver: Driver, gpus: tuple[Gpu, ...], python: Interpreter, need: Need) -> Iterator[Finding]:
    """Yield the problems of the cards: no card, a card in use, or a torch build that does not fit card or driver."""
    torch = python.torch
    if not gpus:
        yield from _no_card(driver, need, cuda_build=torch is not None and torch.cuda is not None)
        return
    for gpu in gpus:
        if gpu.assumed:
            message = f"no card could be queried ({driver.error or 'no driver'}); {card_name(gpu)} is assumed"
            yield Finding.warning("card-assumed", message, "host.card")
            continue
        if torch is not None and torch.cuda is None:
            message = f"torch {torch.version} is a CPU build and cannot use {gpu.name}"
            yield Finding.error(
                "torch-build", message, python.path, "pipeline fix --only environment", exit_code=ExitCode.ENVIRONMENT
            )
        elif torch is not None and torch.arch_list is not None and not runs_on(torch.arch_list, gpu.capability):
            message = f"torch {torch.version} has no kernels for {_card(gpu)}, only for {' '.join(torch.arch_list)}"
            yield Finding.error("torch-arch", message, python.path, "pipeline fix --only environment", ExitCode.GPU)
        yield from _occupied(gpu)
    if torch is not None and torch.cuda and driver.cuda and _version(torch.cuda)[:1] > _version(driver.cuda)[:1]:
        message = f"torch {torch.version} needs CUDA {torch.cuda}; driver {driver.version} supports up to {driver.cuda}"
        yield Finding.error("driver", message, "nvidia-smi", "pipeline fix --only environment", ExitCode.GPU)


def _no_card(driver: Driver, need: Need, *, cuda_build: bool) -> Iterator[Finding]:
    why = driver.error or "no NVIDIA driver found"
    if need.card_required and driver.broken:
        message = f"the NVIDIA driver reports no usable card: {why}"
        yield Finding.error("gpu", message, "host.gpus", ON_CPU, ExitCode.GPU)
    elif need.card_required:
        yield Finding.error(
            "gpu", f"`gpus:` names cards, but the host has none: {why}", "host.gpus", NO_DRIVER_HINT, ExitCode.GPU
        )
    elif cuda_build:
        message = f"no card was found ({why}) although torch is a CUDA build: training will run on the CPU"
        yield Finding.warning("gpu", message, "host", ON_HOST if driver.broken else NO_DRIVER_HINT)


def runs_on(arch_list: tuple[str, ...], capability: tuple[int, int]) -> bool:
    """Return True if the build supports the capability.

    Machine code runs on cards of the same major version and the same or a higher minor version. PTX runs on cards of
    the same or any higher version.
    """
    for arch in arch_list:
        kind, _, digits = arch.partition("_")
        number = whole_number(digits.rstrip("af"))
        if number is None:
            continue
        built = divmod(number, 10)
        same_family = built[0] == capability[0] and built[1] <= capability[1]
        if (kind == "sm" and same_family) or (kind == "compute" and built <= capability):
            return True
    return False


def _occupied(gpu: Gpu) -> Iterator[Finding]:
    if gpu.memory_bytes and gpu.used_bytes > OCCUPIED_SHARE * gpu.memory_bytes:
        who = ", ".join(f"pid {p.pid} {p.name} ({size(p.used_bytes)})" for p in gpu.processes) or "no known process"
        message = f"{gpu.name}: {size(gpu.used_bytes)} of {size(gpu.memory_bytes)} are in use by {who}"
        yield Finding.warning("gpu-occupied", message, gpu.uuid, "pipeline fix --only stale-processes")


def judge_disk(disk: Disk, need: Need) -> Iterator[Finding]:
    """Yield the problems of the disk: not writable, too little space, not persistent, too few inodes."""
    show = on_host("df -h {}", disk.mount)
    if disk.error:
        yield unwritable(disk)
    if disk.free_bytes < need.free_bytes:
        message = f"{size(disk.free_bytes)} free on {disk.mount}, {size(need.free_bytes)} needed"
        yield Finding.error("disk", message, disk.path, show, ExitCode.DISK)
    elif disk.free_bytes < need.usual_bytes:
        message = f"{size(disk.free_bytes)} free on {disk.mount}; a model and its checkpoints often take more"
        yield Finding.warning("disk", message, disk.path, show)
    if disk.volume:
        message = f"{disk.path} is deleted together with the container; {disk.volume} is a persistent volume"
        hint = shell_command("pipeline run --set {}", f"host.workdir={disk.volume}/{WORKDIR_OF_VOLUME}")
        yield Finding.warning("disk", message, disk.path, hint)
    if 0 <= disk.free_inodes < 1000:
        message = f"{disk.free_inodes} free inodes on {disk.mount}"
        yield Finding.error("disk", message, disk.path, on_host("df -i {}", disk.mount), ExitCode.DISK)


def unwritable(disk: Disk) -> Finding:
    """Return the finding of a disk that is not writable."""
    message = f"{disk.path} cannot be written: {disk.error}"
    full = any(word in disk.error for word in FULL_WORDS)
    hint = on_host("df -h {}", disk.mount) if full else OTHER_WORKDIR
    return Finding.error("disk", message, disk.path, hint, ExitCode.DISK)


def judge_container(container: OwnContainer | None) -> Iterator[Finding]:
    """Yield a warning if the image's name now refers to an image that differs from the running container's image."""
    if container is not None and container.newer:
        message = (
            f"the image's name now refers to {container.newer}; the container runs {container.image} until you remove "
            "the container, which also ends its jobs"
        )
        engine = container.engine if container.engine in REMOVALS else "docker"
        yield Finding.warning("container-image", message, container.name, on_host(REMOVALS[engine], container.name))


def judge_clock(machine: Machine, now_unix: float | None) -> Iterator[Finding]:
    """Yield a warning if the clocks of laptop and host differ by more than a minute."""
    if now_unix is not None and abs(machine.clock_unix - now_unix) > CLOCK_SKEW_S:
        message = f"the host's clock is {machine.clock_unix - now_unix:+.0f} s off; curves will show the host's times"
        yield Finding.warning("clock", message, machine.hostname)
