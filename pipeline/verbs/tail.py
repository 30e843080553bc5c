"""`pipeline tail`: print live scalars from the host's TensorBoard files, and save them to the local copy."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import UNREACHABLE_OR_GONE, open_note, unreachable_warning
from pipeline.messages.outcome import JobOutcome
from pipeline.records.find_run import named_run
from pipeline.records.last_seen import job_last_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note
from pipeline.show.console import open_console
from pipeline.show.rows import render_row, rows_of
from pipeline.show.screen import Screen
from pipeline.show.training import describe_step
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import HalfstepError
from remote.protocol.dataclass import dataclass, field
from remote.protocol.events import Scalar
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.shell import shell_command
from remote.protocol.text import one_line
from remote.pull.live import mirrored_scalars, tail_scalars

MOST_TAGS = 1000
FLUSHED = "TensorBoard writes the first values after ten values, a flush, or two minutes"


@dataclass
class Shown:
    """The tags of all scalars that were read. `any` is True once a scalar was printed. `run` is the last survey."""

    tags: set[str] = field(default_factory=set)
    any: bool = False
    run: RunSurvey | None = None


def tail(run: str | None = None, only: Sequence[str] = (), new: bool = False, as_json: bool = False) -> int:
    """Print one row for each step until the job has ended. If the host is unreachable, print local data.

    With --json, print one object for each scalar as it arrives, then the result of the command.
    """
    screen = Screen(as_json=as_json, on_stderr=True)
    note, records = named_run(run, Path.cwd())
    shown = Shown()
    findings: tuple[Finding, ...] = ()
    try:
        for batch in _batches(note, records, screen, shown, new=new):
            _show(screen, batch, only, shown)
    except HalfstepError as error:
        if error.exit_code not in UNREACHABLE_OR_GONE:
            raise
        findings = (unreachable_warning(note, error, "local scalars are shown"),)
    if not findings and not shown.any:
        findings = _nothing_shown(note, only, shown, new=new)
    outcome = replace(
        outcome_for("tail", note),
        job=_job_seen(note, records, reached=not any(one.check == "unreachable" for one in findings)),
        exit_code=exit_code_of(findings, ExitCode.PULL),
        findings=findings,
    )
    if outcome.job and not as_json:
        screen.job(outcome.job)
    screen.closing(outcome)
    return outcome.exit_code


def _batches(
    note: RunNote, records: Records, screen: Screen, shown: Shown, *, new: bool
) -> Iterator[tuple[Scalar, ...]]:
    """Yield the scalars of the local copy, then the scalars of the host, in batches.

    Raises HalfstepError if the host is unreachable.
    """
    with open_note(note, records, prompter=None if screen.as_json else screen, keep=False) as opened:
        retry = announcing_retries(screen)
        if next(mirrored_scalars(opened.folder), None) is None:
            screen.progress(waiting_words(note.name, opened.survey(), new=new))
        since = opened.survey_runs().clock_unix if new else None
        yield from tail_scalars(opened.host, note.project, note.run, opened.folder, since_unix=since, retry=retry)
        shown.run = opened.survey()


def waiting_words(name: str, run: RunSurvey, *, new: bool) -> str:
    """Return the line that `tail` shows while no scalar of the run is on the laptop. `new`: old ones are not shown."""
    if run.state is not JobState.RUNNING:
        return f"reading the scalars of {name}"
    message = f"waiting for {'new scalars' if new else 'the first scalar'} of {name}"
    at = describe_step(run.progress) if run.progress is not None else run.waits or "no optimizer step yet"
    log = shell_command("pipeline logs -f {}", name)
    return f"{message} ({at}); {FLUSHED}; a script without a tracker writes none: {log} shows its output"


def _job_seen(note: RunNote, records: Records, *, reached: bool) -> JobOutcome:
    """Return the recorded state of the job. If the host was reached, the state has no age."""
    job = job_last_seen(read_note(records.folder_named(note.name)) or note, time.time())
    return replace(job, age_s=None) if reached else job


def _show(screen: Screen, batch: Sequence[Scalar], only: Sequence[str], shown: Shown) -> None:
    shown.tags.update(islice({scalar.tag for scalar in batch}, MOST_TAGS - len(shown.tags)))
    wanted = [scalar for scalar in batch if not only or any(text in scalar.tag for text in only)]
    shown.any = shown.any or bool(wanted)
    if screen.as_json:
        for scalar in wanted:
            value = scalar.value if math.isfinite(scalar.value) else None  # JSON has no NaN
            screen.raw(json.dumps({"step": scalar.step, "tag": scalar.tag, "value": value}) + "\n")
        return
    out = open_console()
    for row in rows_of(wanted):
        screen.raw(render_row(row, out.width if out.is_terminal else None))


def _nothing_shown(note: RunNote, only: Sequence[str], shown: Shown, *, new: bool) -> tuple[Finding, ...]:
    """Return the reason why no scalar was printed."""
    not_begun = judge_begun(note, shown.run) if shown.run is not None else ()
    if not_begun or new:
        return not_begun
    return (_no_such_tag(note.name, only, shown.tags) if shown.tags else _no_scalars(note.name),)


def _no_such_tag(run: str, only: Sequence[str], tags: set[str]) -> Finding:
    known = ", ".join(map(one_line, sorted(tags)))
    message = f"{run} has no scalar whose tag contains {' or '.join(only)}; its tags: {known}"
    return Finding("no-scalars", Severity.WARNING, message, "--tag")


def _no_scalars(run: str) -> Finding:
    return Finding(
        "no-scalars",
        Severity.WARNING,
        f"{run} wrote no scalars",
        hint="write event files to HALFSTEP_TENSORBOARD_DIR, or name their folder: logs: {tensorboard: FOLDER}",
    )
