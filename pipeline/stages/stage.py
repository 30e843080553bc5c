"""A stage: what it was done for (fingerprint), whether that still holds (check), and how it is made so (run)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from pipeline.messages.listener import Listener
from pipeline.records.checkpoints import StageCheckpoint
from pipeline.records.inputs import Inputs, digest
from pipeline.report.evidence import Evidence
from pipeline.work.view import View
from remote.host import Host
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Report


@dataclass(frozen=True)
class RunOptions:
    """What the user typed beside host and config."""

    until: str = ""
    force: str = ""
    detach: bool = False
    heal: bool = True


@dataclass(frozen=True)
class Done:
    """A stage acted: what it found, one phrase for the screen, and what reports say later. Without a phrase of its own
    the screen shows what holds on the host afterwards.

    `unfinished`: its work goes on over there (a detached job), so nothing may be claimed yet.
    `caveat`: what remains unknown although the stage is done; shown whenever it is skipped later.
    """

    report: Report = field(default_factory=Report)
    reason: str = ""
    notes: tuple[str, ...] = ()
    exit_code: ExitCode = ExitCode.OK
    unfinished: bool = False
    caveat: str = ""


def nothing(left: tuple[str, ...]) -> None:
    """Nothing has to be done before stages act."""


@dataclass
class Context:
    """What a stage acts with. `view` is looked at anew after every stage that acted; `evidence` is for the report.

    `before_acting` is called before the first stage acts, with the names of those that have something to do.
    """

    host: Host
    view: View
    listener: Listener
    wishes: RunOptions = field(default_factory=RunOptions)
    evidence: Evidence = field(default_factory=Evidence)
    before_acting: Callable[[tuple[str, ...]], None] = nothing


class Stage(Protocol):
    """One of the six. `inputs` and `check` are pure; only `run` touches anything."""

    @property
    def name(self) -> str: ...

    @property
    def exit_code(self) -> ExitCode:
        """What a failure of this stage exits with, where its findings do not say."""
        ...

    def inputs(self, view: View) -> Inputs:
        """Everything its work depends on, by name, as short words: equal inputs, equal work."""
        ...

    def check(self, view: View) -> Report:
        """A judgement of the host as it is now: does what this stage makes true hold?"""
        ...

    def holds(self, view: View) -> str:
        """One phrase for a stage that has nothing to do."""
        ...

    def run(self, context: Context) -> Done:
        """What this stage makes true is made true, or the report says why not; the runner looks again afterwards."""
        ...


def fingerprint(stage: Stage, view: View) -> str:
    """One digest of everything the stage's work depends on."""
    return digest(dict(stage.inputs(view)))


@dataclass(frozen=True)
class StageStatus:
    """Whether a stage's checkpoint holds, and why (not)."""

    holds: bool
    reason: str


def judge_status(stage: Stage, view: View, claim: StageCheckpoint | None) -> StageStatus:
    """Done means: claimed, for the inputs of now, and a cheap look at the host agrees."""
    if claim is None:
        return StageStatus(False, "not done yet")
    inputs = dict(stage.inputs(view))
    if claim.fingerprint != digest(inputs):
        return StageStatus(False, _difference(claim.inputs, inputs))
    report = stage.check(view)
    if not report.ok:
        return StageStatus(False, report.errors[0].message)
    return StageStatus(True, claim.caveat or stage.holds(view))


def _difference(before: Inputs, now: Inputs) -> str:
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if not changed:
        return "its record does not match"
    name = changed[0]
    old, new = before.get(name, "none"), now.get(name, "none")
    short = len(old) < 40 and len(new) < 40
    detail = f"{name}: {old} -> {new}" if short else f"{name} changed"
    return detail + (f" (and {len(changed) - 1} more)" if len(changed) > 1 else "")
