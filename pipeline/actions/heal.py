"""Run the stages with cures: after a known failure, apply and record its cure, and run the stages again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fixers.registry import OFF, SOURCE_NAMES
from pipeline.actions.session import refresh_view
from pipeline.diagnosis.cures import Cure, is_known, next_cure
from pipeline.records.kept_cures import write_cures
from pipeline.report.model import CureRow
from pipeline.runs.fixes import fixer_settings_of
from pipeline.runs.run_id import run_of
from pipeline.runs.view import View
from pipeline.stages.runner import RunResult, run_stages
from pipeline.stages.stage import Context, Stage
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.shell import shell_command

HEALED, NOT_HEALED = APPLIED = ("healed", "not-healed")
CURABLE = (ExitCode.PRECISION, ExitCode.TRAINING, ExitCode.GPU)


def run_and_heal(context: Context, stages: Sequence[Stage], record: Path) -> RunResult:
    """Run the stages; after a known failure, apply its cure and run them again.

    At most two cures are applied, each at most once.
    """
    ran = run_stages(context, stages, record, refresh_view)
    while context.options.heal and ran.exit_code in CURABLE:
        cure = cure_for(context.view, ran)
        if cure is None:
            break
        context.listener.note(f"applying a cure: {cure.words}")
        remember_cure(context, cure)
        context.options = replace(context.options, force="")
        context.evidence = replace(context.evidence, cures=(*context.evidence.cures, cure_row(context.view, ran, cure)))
        again = run_stages(context, stages, record, refresh_view)
        earlier = (finding for finding in ran.findings if finding.check in APPLIED)
        again.findings[:0] = [*earlier, _applied(cure, ran, again)]
        again.acted = True
        ran = again
    return ran


def cure_for(view: View, ran: RunResult) -> Cure | None:
    """Return the next cure for the findings, or None if there is no further cure."""
    return next_cure([cure.name for cure in view.cures], known_errors(ran), view.loaded.as_json(), applied_fixers(view))


def known_errors(ran: RunResult) -> list[Finding]:
    """Return the errors that have a catalog entry or a cure, in the order of detection."""
    return [finding for finding in ran.findings if finding.severity is Severity.ERROR and is_known(finding.check)]


def applied_fixers(view: View) -> frozenset[str]:
    """Return the source fixers that already ran. A second run on the same files would change nothing."""
    settings = fixer_settings_of(view)
    return frozenset(name for name in SOURCE_NAMES if settings.get(name) not in OFF)


def remember_cure(context: Context, cure: Cure) -> None:
    """Record the cure, so that this run and every later run of the config use the cure."""
    view = context.view
    cures = (*view.cures, cure)
    write_cures(view.records.cures(view.host.name, view.loaded.record), view.loaded.as_json(), cures)
    context.view = replace(view, cures=cures)


def cure_row(view: View, ran: RunResult, cure: Cure) -> CureRow:
    """Return the cure as a row of the report."""
    run = run_of(view)
    job = run.job if run is not None else 0
    first = next(iter(known_errors(ran)), None)
    return CureRow(first.check if first else "", first.message if first else "", cure.words, job)


def _applied(cure: Cure, before: RunResult, after: RunResult) -> Finding:
    """Return the warning that the cure was applied, and whether the same error occurred again."""
    first = next(iter(known_errors(before)), None)
    failure = f"{first.check}: {first.message.rstrip('.')}" if first else "the run failed"
    again = first is not None and any(error.check == first.check for error in known_errors(after))
    check, outcome = (NOT_HEALED, ", which did not help") if again else (HEALED, "")
    message, hint = f"{failure}; {cure.words}{outcome}", shell_command("pipeline explain {}", cure.name)
    return Finding(check, Severity.WARNING, message, hint=hint)
