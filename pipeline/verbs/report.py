"""`pipeline report`: write the HTML report of a run, or the comparison of several runs.

The pages show local data. The logs of a run that has not ended, or whose logs were never pulled, are pulled first.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.hosts.open_run import UNREACHABLE_OR_GONE, open_note, unreachable_warning
from pipeline.hosts.pull import pull_run
from pipeline.messages.outcome import Outcome
from pipeline.records.files import locked
from pipeline.records.find_run import named_run
from pipeline.records.last_seen import job_last_seen
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, artifacts_in, read_note
from pipeline.report.comparison_page import MAX_RUNS
from pipeline.report.saved import is_reported, render_saved_comparison, render_saved_report
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.errors import BadUsage, Busy, HalfstepError
from remote.project.paths import is_folder
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState

ENDED = (JobState.STOPPED, JobState.FAILED, JobState.LOST, JobState.SUCCEEDED)
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def report(runs: Sequence[str] = (), open_page: bool = False, as_json: bool = False) -> int:
    """Write the report of one run, or a page that compares several runs."""
    screen = Screen(as_json=as_json)
    found = _runs_with_reports(runs or (None,))
    findings = tuple(finding for note, records in found for finding in _pull_missing(note, records, screen))
    found = [(read_note(records.folder_named(note.name)) or note, records) for note, records in found]
    if len(found) == 1:
        page, outcome = _write_report(*found[0], unreachable=bool(findings))
    else:
        page, outcome = _write_comparison(found)
    outcome = replace(outcome, findings=findings)
    if open_page and not open_in_browser(page, os.environ):
        screen.note(f"no browser was found; open {page}")
    screen.closing(outcome)
    return 0


def _runs_with_reports(runs: Sequence[str | None]) -> list[tuple[RunNote, Records]]:
    """Return all runs, each with its records. Raises BadUsage if a run is unknown or has no report."""
    found, problems = [], []
    for run in runs:
        try:
            found.append(_run_with_report(run))
        except BadUsage as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise BadUsage("; ".join(one.message for one in problems), where="RUN", hint="pipeline list")
    return found


def _run_with_report(run: str | None) -> tuple[RunNote, Records]:
    """Return a run that has a report. Raises BadUsage if the run has no report."""
    note, records = named_run(run, Path.cwd(), trained=True)
    folder = records.folder_named(note.name)
    if not is_reported(folder):
        raise BadUsage(f"{note.name} has no report yet", where=str(folder), hint=note.resume_command)
    return note, records


def _pull_missing(note: RunNote, records: Records, screen: Screen) -> tuple[Finding, ...]:
    """Pull state and logs of a run that was running when last seen, or whose logs were never pulled.

    Return a warning if the host of a running job is unreachable.
    """
    ended = note.state in ENDED
    never_pulled = bool(note.host_config) and not is_folder(records.folder_named(note.name) / "jobs")
    if note.state is not JobState.RUNNING and not (ended and never_pulled):
        return ()
    screen.progress(f"looking at {note.name} on {note.host}")
    try:
        with open_note(note, records, prompter=None if screen.as_json else screen, keep=False) as opened:
            survey = opened.survey()
            with contextlib.suppress(Busy), locked(opened.folder / "pull.lock", f"pull {note.name}"):
                pull_run(opened.host, note.project, survey, opened.folder, weights=False, listener=screen)
    except HalfstepError as error:
        if ended:
            return ()
        if error.exit_code not in UNREACHABLE_OR_GONE:
            raise
        return (unreachable_warning(note, error, "the report shows local data"),)
    return ()


def _write_report(note: RunNote, records: Records, *, unreachable: bool) -> tuple[Path, Outcome]:
    folder = records.folder_named(note.name)
    page = render_saved_report(folder)
    job = job_last_seen(note, time.time())
    job = job if unreachable else replace(job, age_s=None)
    return page, replace(outcome_for("report", note), job=job, artifacts=artifacts_in(folder))


def _write_comparison(runs: Sequence[tuple[RunNote, Records]]) -> tuple[Path, Outcome]:
    """Write the comparison into the records of the first run."""
    folders = {note.name: records.folder_named(note.name) for note, records in runs}
    names = list(folders)
    if not 2 <= len(names) <= MAX_RUNS:
        given = "the same run twice" if len(names) < 2 else f"{len(names)} runs"
        message = f"expected 2 to {MAX_RUNS} different runs to compare, got {given}"
        raise BadUsage(message, where="RUN", hint="pipeline list")
    page = runs[0][1].comparison(names)
    render_saved_comparison(list(folders.values()), page)
    return page, Outcome("report", artifacts={"comparison": str(page)}, more={"compared": names})


def open_in_browser(page: Path, environment: Mapping[str, str]) -> bool:
    """Open a page in the user's browser.

    Return False if there is no browser. Text browsers are not used, because they would take over the terminal.
    """
    if sys.platform != "darwin" and not any(environment.get(name) for name in DISPLAYS):
        return False
    return webbrowser.open(page.as_uri())
