"""`pipeline attach`: print a run's output as it is written; Ctrl-C detaches, and the job keeps running."""

from __future__ import annotations

from pathlib import Path

from pipeline.hosts.open_run import open_run
from pipeline.show.output import OutputLines
from pipeline.show.screen import Screen
from pipeline.verbs.wait import wait_for
from remote.protocol.jobs import JobState
from remote.pull.log import follow_log

RECENT_LINES = 20


def attach(run: str | None = None, as_json: bool = False) -> int:
    """Follow a running job, then show how it ended, with the exit code of `wait`."""
    screen = Screen(as_json=as_json)
    with open_run(run, Path.cwd(), prompter=None if as_json else screen) as opened:
        note, survey = opened.note, opened.survey()
        if not as_json and survey.state is JobState.RUNNING:
            screen.note(f"Ctrl-C detaches from {note.name}, which keeps running; `pipeline stop {note.name}` ends it.")
            output = OutputLines()
            for chunk in follow_log(opened.host, note.project, note.run, lines=RECENT_LINES):
                for line in output.feed(chunk):
                    screen.raw(line)
    return wait_for(note.name if survey.state is JobState.RUNNING else run, screen, "attach")
