"""`pipeline verify`: check that training will work, without changes outside a scratch folder."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from pipeline.actions.preview import Preview, judge_without_proof, preview
from pipeline.actions.proof import obstacle_to_proof, prove_in_scratch
from pipeline.actions.session import host_session
from pipeline.hosts.pending import PendingHost
from pipeline.judgements.static import without_refuted
from pipeline.messages.hints import complete_hint
from pipeline.messages.outcome import Outcome, StageOutcome, StageState, job_outcome
from pipeline.runs.laptop_paths import laptop_paths
from pipeline.runs.launch import describe_launch_changes
from pipeline.runs.missing_modules import UNFIT, missing_after, missing_before
from pipeline.runs.runtime import describe_runtime
from pipeline.runs.secrets import judge_secrets
from pipeline.runs.selection import Selection
from pipeline.runs.tracker_key import wandb_key
from pipeline.runs.view import View
from pipeline.show.plain import headed
from pipeline.show.prompts import prompter_for
from pipeline.show.screen import Screen
from pipeline.show.wrapping import wrap_text
from pipeline.stages.stage import Context, RunOptions
from pipeline.stages.verify import describe_proof, diagnose_proof, try_card
from remote.protocol.dataclass import dataclass
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.precision import announce
from remote.protocol.quantities import count

NEXT_STEP = " -> "


def verify(
    selection: Selection, pending: PendingHost, no_proof: bool = False, verbose: bool = False, as_json: bool = False
) -> int:
    """Check whether host and project are ready, and show for each stage whether `run` would have work to do."""
    screen = Screen(as_json=as_json)
    with host_session(
        selection, screen, RunOptions(), keep=False, prompter=prompter_for(screen), pending=pending
    ) as context:
        screen.heading(f"{selection.loaded.name} on {selection.host.name}: checking only")
        verified = _verify(context, screen, proof_wanted=not no_proof)
    outcome = replace(verified.outcome, given=selection.given)
    if verbose:
        screen.passed(verified.passed)
        for check, reason in verified.not_checked:
            screen.note(f"not checked: {check}: {reason}")
    screen.closing(outcome)
    if not as_json:
        line = verdict(outcome, len(verified.passed), [check for check, _ in verified.not_checked])
        width = screen.out.width if screen.out.is_terminal else len(line)
        is_long = len(line) > width
        for part in wrap_text(line.partition(NEXT_STEP)[0] if is_long else line, width, width):
            screen.line(part)
        if is_long and (hint := next_hint(outcome)):
            screen.next_step(hint)
    return outcome.exit_code


@dataclass(frozen=True)
class Verified:
    """The result of `verify`: the outcome, the passed checks, and (check, reason) for each check that was not run."""

    outcome: Outcome
    passed: tuple[Finding, ...] = ()
    not_checked: tuple[tuple[str, str], ...] = ()


def verdict(outcome: Outcome, passed: int, not_checked: Collection[str]) -> str:
    """Return 'ready: 23 passed, 2 warnings, 11 not checked -> next: pipeline run ...'.

    A warning that a check was not run counts as not checked.
    """
    errors = sum(one.severity is Severity.ERROR for one in outcome.findings)
    warnings = sum(one.severity is Severity.WARNING and one.check not in not_checked for one in outcome.findings)
    counts = [count(errors, "error")] if errors else []
    counts += [f"{passed} passed", count(warnings, "warning"), f"{len(not_checked)} not checked"]
    hint = next_hint(outcome)
    next_step = NEXT_STEP + "".join(headed(hint)) if hint else ""
    return f"{'ready' if outcome.ok else 'not ready'}: {', '.join(counts)}{next_step}"


def next_hint(outcome: Outcome) -> str:
    """Return the hint of the first error, or the command that starts the run if there is no error."""
    if outcome.ok:
        return complete_hint("pipeline run", outcome.host, outcome.config, outcome.given)
    return next((one.hint for one in outcome.shown_findings if one.severity is Severity.ERROR), "")


def _verify(context: Context, screen: Screen, *, proof_wanted: bool) -> Verified:
    view = context.view
    passed: tuple[Finding, ...] = ()
    not_checked: tuple[tuple[str, str], ...] = ()
    seen = preview(context)
    for stage in seen.stages:
        screen.stage_ended(stage)
    screen.note(announce(view.precision))
    report = judge_without_proof(view).plus(Report(seen.sync.report.findings + seen.fixes.findings))
    unset = judge_secrets(view.host.config, view.config, Severity.ERROR if proof_wanted else Severity.WARNING)
    report = report.plus(laptop_paths(context.host, view)).plus(wandb_key(context.host, view)).plus(Report(unset))
    why_not = _obstacle(view, report, wanted=proof_wanted)
    if why_not:
        # Each error has its own hint.
        again = ("pipeline run --until verify" if proof_wanted else "pipeline verify") if report.ok else ""
        report = report.plus(_not_checked(why_not, again, seen.stages, wanted=proof_wanted))
        not_checked = (("proof", why_not),)
        report = report.plus(_lacking(context, seen, report))
    else:
        card = try_card(context)
        for words in filter(None, (describe_launch_changes(view), describe_runtime(view))):
            screen.note(words)
        screen.progress("running the real command until two optimizer steps take effect")
        proof = prove_in_scratch(context, seen.fixes)
        screen.note(describe_proof(view, proof))
        passed = tuple(one for one in (*card.findings, *proof.findings) if one.severity is Severity.INFO)
        not_checked = tuple((one.check, one.reason) for one in proof.unseen)
        report = without_refuted(report, Report(proof.findings))
        lacking = missing_after(context.host, view, proof.exit)
        report = lacking.plus(diagnose_proof(view, proof)).plus(report).plus(card).plus(proof.report)
    outcome = Outcome(
        "verify",
        exit_code_of(report.findings, ExitCode.PRECISION),
        host=view.host.name,
        config=view.loaded.name,
        run=seen.run.run if seen.run is not None else "",
        stages=seen.stages,
        findings=report.findings,
        job=job_outcome(seen.run) if seen.run is not None else None,
        more={
            "facts": dict(report.facts),
            "passed": [one.check for one in passed],
            "not_checked": [{"check": check, "reason": reason} for check, reason in not_checked],
        },
    )
    return Verified(outcome, passed, not_checked)


def proved_before(stages: Sequence[StageOutcome]) -> bool:
    """Return True if an earlier proof is still valid."""
    return any(stage.name == "verify" and stage.state is StageState.SKIPPED for stage in stages)


def _lacking(context: Context, seen: Preview, report: Report) -> Report:
    """Return the packages that the script lacks, unless an earlier proof is valid or the interpreter is unfit."""
    if proved_before(seen.stages) or any(one.check in UNFIT for one in report.findings):
        return Report()
    return missing_before(context.host, context.view, seen.fixes)


def _obstacle(view: View, report: Report, *, wanted: bool) -> str:
    """Return why the proof is not run, or "" if it is run."""
    if not report.ok:
        return "the errors must be fixed first"
    return obstacle_to_proof(view) if wanted else "--no-proof was given"


def _not_checked(why: str, again: str, stages: Sequence[StageOutcome], *, wanted: bool) -> Report:
    """Return a warning about the missing proof, unless an earlier proof is still valid."""
    proved = not wanted and proved_before(stages)
    return Report(() if proved else (Finding("proof", Severity.WARNING, f"not checked: {why}", hint=again),))
