"""`pipeline verify`: check that a training will work; nothing is changed outside a scratch folder."""

from __future__ import annotations

from dataclasses import replace

from pipeline.actions.preview import judge_without_proof, preview
from pipeline.actions.proof import obstacle_to_proof, prove_in_scratch
from pipeline.actions.session import host_session
from pipeline.hosts.pending import PendingHost
from pipeline.judgements.static import without_refuted
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.show.screen import Screen
from pipeline.stages.stage import Context, RunOptions
from pipeline.stages.verify import describe_proof, diagnose_proof, try_card
from pipeline.work.laptop_paths import laptop_paths
from pipeline.work.launch import describe_launch_changes
from pipeline.work.runtime import describe_runtime
from pipeline.work.selection import Selection
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.precision import announce


def verify(selection: Selection, pending: PendingHost, no_proof: bool = False, as_json: bool = False) -> int:
    """Check whether host and project are ready, and show for each stage whether `run` would have work to do."""
    screen = Screen(as_json=as_json)
    with host_session(
        selection, screen, RunOptions(), keep=False, prompter=None if as_json else screen, pending=pending
    ) as context:
        screen.heading(f"{selection.loaded.name} on {selection.host.name}: checking only")
        outcome = replace(_verify(context, screen, proof_wanted=not no_proof), given=selection.given)
    screen.closing(outcome)
    return outcome.exit_code


def _verify(context: Context, screen: Screen, *, proof_wanted: bool) -> Outcome:
    view = context.view
    seen = preview(context)
    for stage in seen.stages:
        screen.stage_ended(stage)
    screen.note(announce(view.precision))
    report = judge_without_proof(view).plus(Report(seen.sync.report.findings + seen.fixes.findings))
    report = report.plus(laptop_paths(context.host, view))
    why_not = obstacle_to_proof(view) if proof_wanted else "--no-proof was given"
    if not report.ok:
        why_not = "the errors must be fixed first"
    if why_not:
        again = "pipeline verify" if not (proof_wanted and report.ok) else "pipeline run --until verify"
        report = report.plus(Report((_not_checked(why_not, again),)))
    else:
        card = try_card(context)
        screen.passed(card.findings)
        for words in filter(None, (describe_launch_changes(view), describe_runtime(view))):
            screen.note(words)
        screen.progress("running the real command for two optimizer steps")
        proof = prove_in_scratch(context, seen.fixes)
        screen.note(describe_proof(view, proof))
        screen.passed(proof.findings)
        for unseen in proof.unseen:
            screen.note(f"not checked: {unseen.check}: {unseen.reason}")
        report = without_refuted(report, Report(proof.findings))
        report = diagnose_proof(proof).plus(report).plus(card).plus(proof.report)
    return Outcome(
        "verify",
        exit_code_of(report.findings, ExitCode.PRECISION),
        host=view.host.name,
        config=view.loaded.name,
        run=seen.run.run if seen.run is not None else "",
        stages=seen.stages,
        findings=report.findings,
        job=job_outcome(seen.run) if seen.run is not None else None,
        more={"facts": dict(report.facts)},
    )


def _not_checked(why: str, again: str) -> Finding:
    return Finding("proof", Severity.WARNING, f"not checked: {why}", hint=again)
