"""Check a host and the connection to it for `pipeline hosts check NAME`. The result is one row per check."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from enum import StrEnum

from remote.errors import AuthRefused, HalfstepError, HostKeyRefused, HostUnfit
from remote.host import read_answer
from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.prompter import Prompter
from remote.link.reach import open_host
from remote.link.ssh.route import ResolvedHop
from remote.policy.cards import parse_card, requires_card
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.layout import OTHER_WORKDIR, WORKDIR_OF_VOLUME
from remote.protocol.quantities import memory, size
from remote.protocol.shell import on_host, shell_command
from remote.protocol.survey import Survey, SurveyRequest
from remote.protocol.values import encode

STEPS = ("connect", "host key", "login", "agent", "round trip", "clock", "workdir", "python", "gpu")
SKEW_S = 60.0
LITTLE_FREE_BYTES = 10**9
PROJECT = "hosts-check"


class State(StrEnum):
    """The result of one check. UNCHECKED means that the check depends on another check that failed."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class Row:
    """One check and its result; `hint` is a command or setting."""

    name: str
    state: State
    detail: str
    hint: str = ""

    @property
    def ok(self) -> bool:
        return self.state in (State.OK, State.WARNING)


@dataclass(frozen=True)
class Inspection:
    """The rows in order, and the exit code of the first failed check, or 0 if no check failed.

    `owner_untrusted` is the message if the only problem is the owner of a folder above the workdir.
    """

    rows: tuple[Row, ...]
    exit_code: int = 0
    owner_untrusted: str = ""


def inspect_host(
    address: Address,
    *,
    prompter: Prompter | None = None,
    confirm_local: Callable[[ResolvedHop], None] | None = None,
    gpus: tuple[int, ...] | None = None,
    card: str | int | float | None = None,
    clock: Callable[[], float] = time.time,
) -> Inspection:
    """Check the properties of a host that every run needs. No project is required, and the host is not changed.

    `gpus` and `card` come from the host file. If the host file has a card and the host has none, the check fails.
    """
    host = open_host(address, keep=False, prompter=prompter, confirm_local=confirm_local)
    try:
        return _inspect(host, address, RequiredCards(gpus, card), clock)
    finally:
        host.close()


@dataclass(frozen=True)
class RequiredCards:
    """The cards that the host file requires."""

    gpus: tuple[int, ...] | None
    card: str | int | float | None


def _inspect(host: AgentHost, address: Address, required: RequiredCards, clock: Callable[[], float]) -> Inspection:
    rows: list[Row] = []
    try:
        greeting = host.greeting
    except HalfstepError as error:
        step = _failed_step(error)
        details = dict(host.describe()) if step != STEPS[0] else {}
        for name in STEPS[: STEPS.index(step)]:
            rows.append(Row(name, State.OK, details.get(name, "verified" if name == "host key" else "")))
        rows.append(Row(step, State.FAILED, error.message, error.hint))
        untrusted = error.message if isinstance(error, HostUnfit) and error.owner_untrusted else ""
        return Inspection(_with_unchecked(rows), int(error.exit_code), untrusted)
    rows += [Row(name, State.OK, detail) for name, detail in host.describe()]
    rows += [Row("ssh config", State.WARNING, warning) for warning in host.warnings()]
    rows += [Row("workdir", State.WARNING, warning) for warning in host.owners()]
    version = ".".join(map(str, greeting["python"]))
    rows.append(Row("agent", State.OK, f"Python {version}, process {greeting['pid']}"))
    try:
        rows.append(Row("round trip", State.OK, f"{_round_trip_ms(host):.1f} ms"))
        card = parse_card(required.card) if required.card is not None else None
        request = SurveyRequest(PROJECT, address.python, gpus=required.gpus, card=card)
        before = clock()
        survey = read_answer(Survey, host, host.ask("survey", encode(request)))
        rows += _rows_of(survey, (before + clock()) / 2, host.workdir)
        elsewhere = address.scheduler is not None
        required_card = requires_card(
            survey.driver, survey.gpus, gpus=required.gpus, card=required.card, elsewhere=elsewhere
        )
        rows += _gpu_rows(survey, required=required_card)
    except HalfstepError as error:
        rows.append(Row("survey", State.FAILED, error.message, error.hint))
        return Inspection(_with_unchecked(rows), int(error.exit_code))
    codes = {"workdir": ExitCode.DISK, "gpu": ExitCode.GPU}
    failed = (codes[row.name] for row in rows if row.state is State.FAILED)
    return Inspection(tuple(rows), int(next(failed, ExitCode.OK)))


def _failed_step(error: HalfstepError) -> str:
    if isinstance(error, HostKeyRefused):
        return "host key"
    if isinstance(error, AuthRefused):
        return "login"
    return "agent" if isinstance(error, HostUnfit) else "connect"


def _with_unchecked(rows: list[Row]) -> tuple[Row, ...]:
    present, needed = {row.name for row in rows}, f"needs: {rows[-1].name}"
    return (*rows, *(Row(name, State.UNCHECKED, needed) for name in STEPS if name not in present))


def _round_trip_ms(host: AgentHost) -> float:
    durations_s: list[float] = []
    for _ in range(3):
        start = time.perf_counter()
        host.ask("file.list", {"path": f"{PROJECT}/nothing"})
        durations_s.append(time.perf_counter() - start)
    return statistics.median(durations_s) * 1000


def _rows_of(survey: Survey, now: float, workdir: str) -> Iterator[Row]:
    skew = survey.machine.clock_unix - now
    state = State.OK if abs(skew) <= SKEW_S else State.WARNING
    yield Row(
        "clock",
        state,
        f"{skew:+.0f} s from this machine",
        "" if state is State.OK else "set the host's clock: ntpd, chrony",
    )
    disk = survey.disk
    free = f"{workdir}: {size(disk.free_bytes)} free on {disk.mount}"
    if disk.error:
        yield Row("workdir", State.FAILED, f"{workdir}: {disk.error}", OTHER_WORKDIR)
    elif disk.volume:
        warning = f"{free}, a file system that is deleted with the container; {disk.volume} is a volume"
        hint = shell_command("workdir: {}   (in the host file)", f"{disk.volume}/{WORKDIR_OF_VOLUME}")
        yield Row("workdir", State.WARNING, warning, hint)
    elif disk.free_bytes < LITTLE_FREE_BYTES:
        yield Row("workdir", State.WARNING, free, on_host("du -sh {}/projects/*/*", workdir))
    else:
        yield Row("workdir", State.OK, free)
    container = survey.machine.own_container
    if container is not None:
        moved = f"; the image's name now refers to {container.newer}" if container.newer else ""
        state = State.WARNING if moved else State.OK
        yield Row("container", state, f"{container.name} ({container.engine}) from {container.image}{moved}")
    yield _python_row(survey)


def _python_row(survey: Survey) -> Row:
    python = survey.interpreter
    if python.error:
        hint = "set `python:` to the interpreter that has torch"
        return Row("python", State.WARNING, f"{python.path}: {python.error}", hint)
    version = ".".join(map(str, python.version[:3]))
    if python.torch is None:
        return Row(
            "python",
            State.WARNING,
            f"{python.path}: Python {version}, no torch; environments in projects are not checked",
            "fixers: {environment: create}   (in the config)",
        )
    return Row("python", State.OK, f"{python.path}: Python {version}, torch {python.torch.version}")


def _gpu_rows(survey: Survey, *, required: bool) -> Iterator[Row]:
    why = survey.driver.error or "no NVIDIA card"
    if not survey.gpus and required:
        broken = survey.driver.broken
        problem = "the driver reports no usable card" if broken else "`gpus:` names cards, but the host has none"
        yield Row("gpu", State.FAILED, f"{problem}: {why}", _gpu_hint(survey))
    elif not survey.gpus:
        yield Row("gpu", State.WARNING, f"{why}: the training would run on the CPU", _gpu_hint(survey))
    for gpu in survey.gpus:
        capability = ".".join(map(str, gpu.capability))
        if gpu.assumed:
            yield Row("gpu", State.WARNING, f"{why}: {gpu.name}, capability {capability}, is assumed")
            continue
        used = f", {memory(gpu.used_bytes)} in use" if gpu.processes else ""
        detail = f"{gpu.index}: {gpu.name}, capability {capability}, {memory(gpu.memory_bytes)}{used}"
        yield Row("gpu", State.OK, detail)


def _gpu_hint(survey: Survey) -> str:
    return "nvidia-smi   (on the host)" if survey.driver.broken else "install the NVIDIA driver, if the host has a GPU"
