"""`pipeline tail`: live scalars from the host's TensorBoard files, each kept in the mirror before it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.open_run import NOT_THERE, open_note, out_of_reach
from pipeline.messages.outcome import Outcome
from pipeline.records.runs import named_run
from pipeline.show.screen import Screen
from remote.errors import HalfstepError
from remote.protocol.events import Scalar
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity, exit_code_of
from remote.pull.live import mirrored_scalars, tail_scalars


def tail(run: str | None = None, only: Sequence[str] = (), new: bool = False, as_json: bool = False) -> int:
    """Every scalar as `step tag value`, until the job has ended; those that are here where the host is out of reach."""
    screen = Screen(as_json=as_json, on_stderr=True)
    note, records = named_run(run, Path.cwd())
    seen: list[Scalar] = []
    findings: tuple[Finding, ...] = ()
    tags: set[str] = set()
    shown = False
    try:
        with open_note(note, records, ask=None if as_json else screen, keep=False) as opened:
            patience = announcing_retries(screen)
            if next(mirrored_scalars(opened.folder), None) is None:
                screen.progress(f"waiting for the first scalar of {note.name}")
            for scalar in tail_scalars(
                opened.host, note.project, note.run, opened.folder, history=not new, patience=patience
            ):
                tags.add(scalar.tag)
                if only and not any(word in scalar.tag for word in only):
                    continue
                shown = True
                if as_json:
                    seen.append(scalar)
                else:
                    screen.raw(f"{scalar.step:>8}  {scalar.tag:<32} {scalar.value:.6g}\n")
    except HalfstepError as error:
        if error.exit_code not in NOT_THERE:
            raise
        findings = (out_of_reach(note, error, "these are the scalars that are here"),)
    if not new and not findings and not shown:
        findings = (_none_so_called(note.name, only, tags) if tags else _none_written(note.name),)
    outcome = Outcome(
        "tail",
        exit_code_of(findings, ExitCode.PULL),
        host=note.host,
        config=note.config,
        given=note.given,
        run=note.name,
        findings=findings,
        more={"scalars": [{"step": s.step, "tag": s.tag, "value": s.value} for s in seen]} if as_json else {},
    )
    screen.closing(outcome)
    return outcome.exit_code


def _none_so_called(run: str, only: Sequence[str], tags: set[str]) -> Finding:
    words = f"{run} has no scalar with {' or '.join(only)} in its tag; it has {', '.join(sorted(tags))}"
    return Finding("no-scalars", Severity.WARNING, words, "--tag")


def _none_written(run: str) -> Finding:
    return Finding(
        "no-scalars",
        Severity.WARNING,
        f"{run} wrote no scalars",
        hint="write event files to HALFSTEP_TENSORBOARD_DIR, or name their folder: logs: {tensorboard: FOLDER}",
    )
