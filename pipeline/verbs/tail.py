"""`pipeline tail`: print live scalars from the host's TensorBoard files, each saved to the mirror first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.open_run import UNREACHABLE_OR_GONE, open_note, unreachable_warning
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, named_run
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import HalfstepError
from remote.protocol.events import Scalar
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.pull.live import mirrored_scalars, tail_scalars


@dataclass
class Shown:
    """The scalars printed so far (kept only for --json), and the tags of all scalars, printed or not."""

    scalars: list[Scalar] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    any: bool = False


def tail(run: str | None = None, only: Sequence[str] = (), new: bool = False, as_json: bool = False) -> int:
    """Print every scalar as `step tag value` until the job has ended; local data, if the host is unreachable."""
    screen = Screen(as_json=as_json, on_stderr=True)
    note, records = named_run(run, Path.cwd())
    shown = Shown()
    findings: tuple[Finding, ...] = ()
    try:
        for scalar in _scalars(note, records, screen, new=new):
            _show(screen, scalar, only, shown)
    except HalfstepError as error:
        if error.exit_code not in UNREACHABLE_OR_GONE:
            raise
        findings = (unreachable_warning(note, error, "local scalars are shown"),)
    if not new and not findings and not shown.any:
        findings = (_no_such_tag(note.name, only, shown.tags) if shown.tags else _no_scalars(note.name),)
    rows = [{"step": scalar.step, "tag": scalar.tag, "value": scalar.value} for scalar in shown.scalars]
    outcome = replace(
        outcome_for("tail", note),
        exit_code=exit_code_of(findings, ExitCode.PULL),
        findings=findings,
        more={"scalars": rows} if as_json else {},
    )
    screen.closing(outcome)
    return outcome.exit_code


def _scalars(note: RunNote, records: Records, screen: Screen, *, new: bool) -> Iterator[Scalar]:
    """Yield the run's scalars from the mirror and the host. Raises HalfstepError if the host is unreachable."""
    with open_note(note, records, prompter=None if screen.as_json else screen, keep=False) as opened:
        retry = announcing_retries(screen)
        if next(mirrored_scalars(opened.folder), None) is None:
            screen.progress(f"waiting for the first scalar of {note.name}")
        yield from tail_scalars(opened.host, note.project, note.run, opened.folder, history=not new, retry=retry)


def _show(screen: Screen, scalar: Scalar, only: Sequence[str], shown: Shown) -> None:
    shown.tags.add(scalar.tag)
    if only and not any(text in scalar.tag for text in only):
        return
    shown.any = True
    if screen.as_json:
        shown.scalars.append(scalar)
    else:
        screen.raw(f"{scalar.step:>8}  {scalar.tag:<32} {scalar.value:.6g}\n")


def _no_such_tag(run: str, only: Sequence[str], tags: set[str]) -> Finding:
    message = f"{run} has no scalar with {' or '.join(only)} in its tag; its tags: {', '.join(sorted(tags))}"
    return Finding("no-scalars", Severity.WARNING, message, "--tag")


def _no_scalars(run: str) -> Finding:
    return Finding(
        "no-scalars",
        Severity.WARNING,
        f"{run} wrote no scalars",
        hint="write event files to HALFSTEP_TENSORBOARD_DIR, or name their folder: logs: {tensorboard: FOLDER}",
    )
