"""`pipeline pull`: bring a run's logs (and its adapter) home."""

from __future__ import annotations

from pathlib import Path

from pipeline.hosts.open_run import open_run
from pipeline.hosts.pull import pull_run
from pipeline.hosts.which_run import judge_others
from pipeline.messages.outcome import Outcome, job_outcome
from pipeline.records.files import locked
from pipeline.records.runs import artifacts_in
from pipeline.show.screen import Screen
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity, exit_code_of
from remote.protocol.quantities import size


def pull(run: str | None = None, weights: bool = False, as_json: bool = False) -> int:
    """Bring home what is not here yet; what is here is only ever added to."""
    screen = Screen(as_json=as_json)
    with open_run(run, Path.cwd(), ask=None if as_json else screen, keep=False) as opened:
        note = opened.note
        survey, training = opened.look()
        with locked(opened.folder / "pull.lock", f"pull {note.name}"):
            pulled = pull_run(opened.host, note.project, survey, opened.folder, weights=weights, listener=screen)
    findings = (*judge_others("pull", run, note, survey.state, training), *pulled.findings)
    if weights and not survey.adapter_sha256:
        findings += (no_adapter(note.name),)
    outcome = Outcome(
        "pull",
        exit_code_of(findings, ExitCode.PULL),
        host=note.host,
        config=note.config,
        given=note.given,
        run=note.name,
        findings=findings,
        job=job_outcome(survey),
        artifacts=artifacts_in(opened.folder),
    )
    new = f"{size(pulled.added_bytes)} came home to" if pulled.added_bytes else "nothing new; all that came home is in"
    screen.note(f"{new} {opened.folder}")
    screen.closing(outcome)
    return outcome.exit_code


def no_adapter(run: str) -> Finding:
    """Weights were asked for, and the run has none."""
    message = "the run has no adapter: its job left no adapter_model.safetensors in the run's folder there"
    hint = "save it under $HALFSTEP_OUTPUT_DIR, with model.save_pretrained(...)"
    return Finding("adapter-missing", Severity.ERROR, message, run, hint, ExitCode.PULL)
