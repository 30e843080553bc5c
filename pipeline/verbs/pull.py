"""`pipeline pull`: download a run's logs and, with --weights, its adapter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.config.host_model import HostConfig
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import open_note
from pipeline.hosts.own_weights import OwnWeights, find_own_weights
from pipeline.hosts.pull import pull_run
from pipeline.hosts.which_run import judge_others
from pipeline.judgements.job import newest_checkpoint
from pipeline.messages.outcome import job_outcome
from pipeline.records.files import locked
from pipeline.records.find_run import named_run
from pipeline.records.runs import artifacts_in
from pipeline.report.saved import is_reported, render_saved_report
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import Checkpoint, JobState
from remote.protocol.quantities import size
from remote.protocol.shell import shell_command


def pull(run: str | None = None, weights: bool = False, as_json: bool = False) -> int:
    """Download data that is missing locally. New data is appended to local event files."""
    screen = Screen(as_json=as_json)
    named = named_run(run, Path.cwd(), trained=weights)
    with open_note(*named, prompter=None if as_json else screen, keep=False) as opened:
        note = opened.note
        survey, training = opened.look()
        with locked(opened.folder / "pull.lock", f"pull {note.name}"):
            newest = newest_checkpoint(survey)
            pulled = pull_run(
                opened.host, note.project, survey, opened.folder, weights=weights, listener=screen, checkpoint=newest
            )
        missing = weights and not survey.adapter_sha256
        own = None
        if missing and pulled.checkpoint is None:
            config = HostConfig.model_validate(note.host_config)
            own = find_own_weights(opened.host, config, note.project, note.run, opened.folder)
    not_begun = judge_begun(note, survey)
    findings = (*judge_others("pull", run, note, survey.state, training), *pulled.findings, *not_begun)
    if missing:
        wait = shell_command("pipeline wait {}", note.name)
        again = wait if survey.state is JobState.RUNNING else note.resume_command
        found = unfinished(note.name, pulled.checkpoint, again) if pulled.checkpoint else no_adapter(note.name, own)
        findings += (replace(found, hint=again) if not_begun and pulled.checkpoint is None else found,)
    outcome = replace(
        outcome_for("pull", note),
        exit_code=exit_code_of(findings, ExitCode.PULL),
        findings=findings,
        job=job_outcome(survey),
        artifacts=artifacts_in(opened.folder),
    )
    if is_reported(opened.folder):
        render_saved_report(opened.folder)
    if pulled.added_bytes or not not_begun:
        new = f"{size(pulled.added_bytes)} downloaded to" if pulled.added_bytes else "no new data; all data is in"
        screen.note(f"{new} {opened.folder}")
    else:
        screen.note("nothing to download yet" if survey.state is JobState.RUNNING else "nothing to download")
    screen.closing(outcome)
    return outcome.exit_code


def unfinished(run: str, checkpoint: Checkpoint, command: str) -> Finding:
    """Return the warning that the downloaded adapter is from a trainer checkpoint."""
    message = f"the run has not succeeded; the adapter was saved at step {checkpoint.step} ({checkpoint.name})"
    return Finding.warning("adapter-unfinished", message, run, command)


def no_adapter(run: str, own: OwnWeights | None) -> Finding:
    """Return the error of `--weights` for a run without an adapter. `own` are other weights that the run saved."""
    message = "the run has no adapter: neither its folder on the host nor a verified checkpoint has adapter weights"
    hint = (own.command if own else "") or shell_command("pipeline logs {}", run)
    more = f"; {own.message}" if own else ""
    return Finding("adapter-missing", Severity.ERROR, f"{message}{more}", run, hint, ExitCode.PULL)
