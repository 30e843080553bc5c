"""Stages for tests of the runner."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pipeline.messages.outcome import StageState
from pipeline.records.inputs import Inputs
from pipeline.runs.view import View
from pipeline.stages.runner import run_stages
from pipeline.stages.stage import Context, RunOptions, StageResult
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from tests.pipeline.listeners import NoListener


def bad(message: str, code: ExitCode = ExitCode.OK) -> Report:
    return Report((Finding("test", Severity.ERROR, message, exit_code=code),))


@dataclass
class Toy:
    """A stage with two fields: its inputs, and whether a survey finds it in order."""

    name: str
    depends_on: dict[str, str] = field(default_factory=lambda: {"files": "1"})
    in_order: bool = False
    outcome: StageResult = field(default_factory=StageResult)
    makes_it_so: bool = True
    warns: tuple[Finding, ...] = ()
    runs: int = 0
    exit_code: ExitCode = ExitCode.SYNC

    def inputs(self, view: View) -> Inputs:
        return self.depends_on

    def check(self, view: View) -> Report:
        seen = Report() if self.in_order else bad(f"{self.name} is not in order")
        return Report(self.warns).plus(seen)

    def summary(self, view: View) -> str:
        return "as it should be"

    def run(self, context: Context) -> StageResult:
        self.runs += 1
        self.in_order = self.makes_it_so
        return self.outcome


def run(stages: list[Toy], record: Path, **options: object) -> tuple[list[StageState], ExitCode]:
    context = Context(cast("object", None), cast(View, None), NoListener(), RunOptions(**options))  # type: ignore[arg-type]
    ran = run_stages(context, stages, record, lambda context: None)
    return [stage.state for stage in ran.stages], ran.exit_code


DONE, SKIPPED, FAILED, PENDING, RUNNING = (
    StageState.DONE,
    StageState.SKIPPED,
    StageState.FAILED,
    StageState.PENDING,
    StageState.RUNNING,
)
