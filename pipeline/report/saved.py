"""Save a run's report in its folder: the values as JSON, and the HTML page rendered from them."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.messages.masked import mask_tokens, masked
from pipeline.messages.outcome import StageOutcome, StageState
from pipeline.records.files import write_atomic
from pipeline.records.run_inputs import RunInputs, read_inputs
from pipeline.records.runs import RunNote, artifacts_in, read_note
from pipeline.report.comparison import ComparedRun, compare
from pipeline.report.comparison_page import render_comparison
from pipeline.report.model import JobRow, RunReport, Verdict, verdict_in
from pipeline.report.page import render_report
from pipeline.runs.secrets import hmac_input
from remote.project.digests import read_json
from remote.project.user_folder import is_signed
from remote.protocol.evaluation import RESULT, EvaluationResult
from remote.protocol.hidden import mask
from remote.protocol.lines import LineCollapser
from remote.protocol.regular import open_regular
from remote.protocol.values import Malformed, decode, dumps
from remote.pull.live import mirrored_scalars
from remote.pull.log import mirrored_log
from remote.pull.thinned import thinned

PAGE = "report.html"
VALUES = "report.json"
OUTPUT_LINES = 40
OUTPUT_BYTES = 2**18
"""The number of bytes that are read from the end of the output.

The shown lines need fewer bytes, unless a progress bar has written many states into one line.
"""
IF_KNOWN = ("step", "loss", "best_loss", "first_loss", "elapsed_s")
"""Fields of a report that the record of the run replaces, if the record has them."""
STATES = {
    Verdict.RUNNING: StageState.RUNNING,
    Verdict.QUEUED: StageState.RUNNING,
    Verdict.TRAINED: StageState.DONE,
    Verdict.STOPPED: StageState.STOPPED,
    Verdict.FAILED: StageState.FAILED,
    Verdict.LOST: StageState.FAILED,
}
"""The state of the stage `train` for each state of a run."""


def save_report(folder: Path, report: RunReport) -> Path:
    """Write the report's values and its page into the run's folder, and return the path of the page."""
    earlier = read_report(folder)
    stages = _with_earlier(report.stages, earlier.stages if earlier else ())
    whole = replace(report, stages=stages, output=end_of_output(folder, _secrets(report, folder), report.output))
    write_atomic(folder / VALUES, dumps(_without_secrets(whole, folder)))
    return render_saved_report(folder)


def _without_secrets(report: RunReport, folder: Path) -> RunReport:
    """Return the report with the values of its secrets replaced, because they are not known when it is read again."""
    return masked(report, [value for name in _secrets(report, folder) if (value := os.environ.get(name))])


def _secrets(report: RunReport, folder: Path) -> tuple[str, ...]:
    """Return the names of the secrets of the report and of the run's record."""
    note = read_note(folder)
    return (*report.secrets, *(note.secrets if note is not None and note.own else ()))


def _with_earlier(stages: Sequence[StageOutcome], earlier: Sequence[StageOutcome]) -> tuple[StageOutcome, ...]:
    """Return the stages. A skipped or pending stage is replaced by its outcome in an earlier command that ran it."""
    done = {stage.name: stage for stage in earlier if stage.state is StageState.DONE}
    again = (StageState.SKIPPED, StageState.PENDING)
    return tuple(done.get(stage.name, stage) if stage.state in again else stage for stage in stages)


def render_saved_report(folder: Path) -> Path:
    """Render the page from the saved values and the local curves and results. Raises FileNotFoundError."""
    write_atomic(folder / PAGE, render_report(replace(current_report(folder), written_unix=time.time())).encode())
    return folder / PAGE


def render_saved_comparison(folders: Sequence[Path], page: Path) -> None:
    """Render the comparison of several runs from their saved values. Raises FileNotFoundError."""
    runs = [ComparedRun(current_report(folder), read_inputs(folder)) for folder in folders]
    write_atomic(page, render_comparison(compare(runs), written_unix=time.time()).encode())


def current_report(folder: Path) -> RunReport:
    """Return the saved report, updated with the newer data in the folder. Raises FileNotFoundError.

    The newer data are the last known state of the job, curves, inputs, output, results and the newest evaluation.
    """
    note = read_note(folder)
    report = as_last_seen(read_report(folder) or report_of_note(note, folder), note)
    inputs = read_inputs(folder) or RunInputs()
    current = replace(
        report,
        scalars=thinned(mirrored_scalars(folder)),
        evaluation=read_evaluation(folder) or report.evaluation,
        command=inputs.command,
        commit=inputs.commit,
        uncommitted=inputs.uncommitted,
        output=end_of_output(folder, _secrets(report, folder), report.output),
    )
    artifacts = tuple((name, path) for name, path in artifacts_in(folder).items() if name != "report")
    return replace(_without_secrets(current, folder), artifacts=artifacts)


def as_last_seen(report: RunReport, note: RunNote | None) -> RunReport:
    """Return the report with the state, the step and the losses that `status` and `list` show."""
    if note is None or not note.seen_unix or report.verdict is Verdict.EVALUATED:
        return report
    verdict = verdict_in(note.state, preempted=note.preempted, waits=note.waits)
    same = verdict is report.verdict
    seen = {name: value for name in IF_KNOWN if (value := getattr(note, name)) is not None}
    return replace(
        report,
        **seen,
        verdict=verdict,
        steps=note.steps or report.steps,
        reason=note.waits or (report.reason if same else ""),
        seen_unix=note.seen_unix,
        losses=note.losses or report.losses,
        loss_steps=note.loss_steps if note.losses else report.loss_steps,
        jobs=_jobs_as_seen(report.jobs, note),
        stages=report.stages if same else tuple(_stage_as_seen(stage, verdict) for stage in report.stages),
    )


def _jobs_as_seen(jobs: tuple[JobRow, ...], note: RunNote) -> tuple[JobRow, ...]:
    """Return the rows, with the last known state of the newest job."""
    rows = {row.number: row for row in jobs}
    number = note.job or max(rows, default=1)
    row = rows.get(number) or JobRow(number, note.state)
    seconds = note.elapsed_s - note.earlier_s if note.elapsed_s is not None else row.seconds
    rows[number] = replace(row, state=note.state, seconds=seconds, last_step=note.step)
    return tuple(rows[number] for number in sorted(rows))


def _stage_as_seen(stage: StageOutcome, verdict: Verdict) -> StageOutcome:
    """Return the stage. The stage `train` gets the current state of the job."""
    if stage.name != "train" or verdict not in STATES:
        return stage
    return StageOutcome(stage.name, STATES[verdict], stage.seconds)


def end_of_output(folder: Path, secrets: Collection[str], saved: str = "") -> str:
    """Return the last lines of the newest job's pulled output, or "" if no output was pulled.

    `secrets` are names of variables whose values are masked. If one of them is not set, or has another value than when
    the job was started, the result is the excerpt `saved`, which was masked when it was written.
    """
    path = mirrored_log(folder)
    if path is None:
        return ""
    note = read_note(folder)
    marks = note.secret_marks if note is not None and note.own else {}
    if unknown := [name for name in secrets if not _is_value_of_job(name, marks)]:
        names = ", ".join(unknown)
        return saved or f"not shown: the value of {names} in this job is not known here, so it cannot be masked"
    with open_regular(path) as file:
        start = max(0, os.fstat(file.fileno()).st_size - OUTPUT_BYTES)
        file.seek(start)
        end = file.read().decode("utf-8", "replace")
    whole = end.partition("\n")[2] if start else end
    shown = "".join(LineCollapser().feed(whole, final=True)).splitlines()[-OUTPUT_LINES:]
    return mask_tokens(mask("\n".join(shown), [os.environ[name] for name in secrets]))


def _is_value_of_job(name: str, marks: Mapping[str, Sequence[str]]) -> bool:
    """Return True if the variable is set, and has the value that it had in each command which started the run."""
    value = os.environ.get(name, "")
    return value != "" and all(is_signed(hmac_input(value), mark) for mark in marks.get(name, ()))


def read_evaluation(folder: Path) -> EvaluationResult | None:
    """Return the newest result of `pipeline evaluate` in a run's folder, or None if there is none."""
    try:
        return decode(EvaluationResult, read_json(folder / RESULT), signed=False)
    except (OSError, ValueError, Malformed):
        return None


def read_report(folder: Path) -> RunReport | None:
    """Return the saved report of a run's folder, or None if the report is missing or cannot be read."""
    try:
        return decode(RunReport, read_json(folder / VALUES))
    except (OSError, ValueError, Malformed):
        return None


def report_of_note(note: RunNote | None, folder: Path) -> RunReport:
    """Return a report that contains only the run's record. Raises FileNotFoundError if there is no record."""
    if note is None:
        raise FileNotFoundError(folder / VALUES)
    return RunReport(note.name, note.config, note.host, Verdict.NOT_STARTED, began_unix=note.created_unix)


def is_reported(folder: Path) -> bool:
    """Return True if the folder has a saved report, or the record of a run that was seen on its host."""
    note = read_note(folder)
    return read_report(folder) is not None or (note is not None and note.seen_unix > 0)
