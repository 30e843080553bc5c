"""A run that heals itself: the cure that a known failure names is applied, remembered, and the stages go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fixers.frame import OFF
from fixers.registry import SOURCE_FIXERS
from pipeline.cures import write_cures
from pipeline.diagnosis.heal import Cure, is_known, next_cure
from pipeline.report.model import Cure as ReportedCure
from pipeline.session import look_again
from pipeline.stages.fixing import wishes_of
from pipeline.stages.runner import Ran, run_stages
from pipeline.stages.stage import Context, Stage
from pipeline.stages.view import View
from pipeline.stages.which_run import run_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity

HEALED = (ExitCode.PRECISION, ExitCode.TRAINING, ExitCode.GPU)


def run_and_heal(context: Context, stages: Sequence[Stage], record: Path) -> Ran:
    """The stages, and again after each cure that a failure names; a cure is tried once, and at most two are."""
    ran = run_stages(context, stages, record, look_again)
    while context.wishes.heal and ran.exit_code in HEALED:
        cure = cure_for(context.view, ran)
        if cure is None:
            break
        context.telling.note(f"healing: {cure.words}")
        remember_cure(context, cure)
        context.wishes = replace(context.wishes, force="")
        context.story = replace(context.story, cures=(*context.story.cures, told_of(context.view, ran, cure)))
        again = run_stages(context, stages, record, look_again)
        healed = Finding(
            "healed", Severity.WARNING, f"{_what_failed(ran)}; {cure.words}", hint=f"pipeline explain {cure.name}"
        )
        again.findings[:0] = [*(finding for finding in ran.findings if finding.check == healed.check), healed]
        again.acted = True
        ran = again
    return ran


def cure_for(view: View, ran: Ran) -> Cure | None:
    """The next thing to try for what was found."""
    known = [finding for finding in ran.findings if finding.severity is Severity.ERROR and is_known(finding.check)]
    return next_cure([cure.name for cure in view.cures], known, view.loaded.as_json(), spent_fixers(view))


def spent_fixers(view: View) -> frozenset[str]:
    """Source fixers that were on: what they make of the same files is the same again."""
    wishes = wishes_of(view)
    return frozenset(fixer.name for fixer in SOURCE_FIXERS if wishes.get(fixer.name) not in OFF)


def remember_cure(context: Context, cure: Cure) -> None:
    """This and every later run of the config has it."""
    view = context.view
    cures = (*view.cures, cure)
    write_cures(view.memory.cures(view.host.name, view.loaded.name), view.loaded.as_json(), cures)
    context.view = replace(view, cures=cures)


def told_of(view: View, ran: Ran, cure: Cure) -> ReportedCure:
    """A cure as the report tells it."""
    known = [finding for finding in ran.findings if finding.severity is Severity.ERROR and is_known(finding.check)]
    run = run_of(view)
    first = known[0] if known else None
    job = run.job if run is not None else 0
    return ReportedCure(first.check if first else "", first.message if first else "", cure.words, job)


def _what_failed(ran: Ran) -> str:
    known = [finding for finding in ran.findings if finding.severity is Severity.ERROR and is_known(finding.check)]
    return f"{known[0].check}: {known[0].message}" if known else "the run failed"
