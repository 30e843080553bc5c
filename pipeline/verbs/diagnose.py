"""`pipeline diagnose`: name the error in a log, its cause, the fix, and the folk fix that is wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.diagnosis.diagnose import Diagnosis, as_finding, diagnose_log
from pipeline.hosts.open_run import open_run
from pipeline.messages.outcome import Outcome
from pipeline.records.layout import Records, project_here
from pipeline.records.runs import list_notes
from pipeline.show.screen import Screen
from pipeline.verbs.options import AsJson
from remote.errors import BadUsage
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity
from remote.pull.log import read_log

app = typer.Typer(rich_markup_mode=None, add_completion=False)
LARGEST_LOG = 256 * 2**20


@app.command()
def diagnose(
    what: Annotated[str, typer.Argument(metavar="FILE|RUN|-", help="a log, a run, or - for standard input")] = "",
    as_json: AsJson = False,
) -> int:
    """What went wrong, the first in time first. Exit 0 where the log is healthy, 40 where it names an error."""
    screen = Screen(as_json=as_json)
    found = diagnose_log(_text(screen, what))
    if not as_json:
        for one in found:
            _show(screen, one)
        if not found:
            screen.note("nothing that is known to go wrong is in this log")
    findings = tuple(as_finding(one) for one in found)
    failed = any(finding.severity is Severity.ERROR for finding in findings)
    outcome = Outcome("diagnose", ExitCode.TRAINING if failed else ExitCode.OK, findings=findings if as_json else ())
    screen.closing(outcome)
    return outcome.exit_code


def _text(screen: Screen, what: str) -> str:
    if what == "-":
        return sys.stdin.buffer.read(LARGEST_LOG).decode("utf-8", "replace")
    path = Path(what)
    if what and path.is_file():
        if path.stat().st_size > LARGEST_LOG:
            raise BadUsage(
                f"{path} is larger than {LARGEST_LOG} bytes",
                where=what,
                hint=f"tail -c 100M {path} | pipeline diagnose -",
            )
        return path.read_bytes().decode("utf-8", "replace")
    if what and not any(note.run == what for note in list_notes(Records(project_here(Path.cwd())))):
        raise BadUsage(
            f"{what!r} is neither a file here nor a run of this project", where="FILE|RUN|-", hint="pipeline list"
        )
    data = bytearray()
    with open_run(what or None, Path.cwd(), ask=None if screen.as_json else screen, keep=False) as opened:
        read_log(opened.host, opened.note.project, opened.note.run, data.extend)
    return data.decode("utf-8", "replace")


def _show(screen: Screen, one: Diagnosis) -> None:
    finding, entry = as_finding(one), one.entry
    screen.entry(one.check, finding.where, [])
    for line in one.context:
        screen.line(f"    | {line}")
    parts = [("cause", finding.message), ("fix", finding.hint)]
    if entry is not None:
        parts += [("not", entry.folk_wrong), ("run", f"would try {', '.join(entry.cures)}" if entry.cures else "")]
    screen.entry("", "", [(label, words) for label, words in parts if words])
