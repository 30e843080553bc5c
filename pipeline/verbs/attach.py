"""`pipeline attach`: print a run's output until its job ends. Ctrl-C detaches, and the job keeps running."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import OpenRun, open_run
from pipeline.show.output import OutputLines, terminal_width
from pipeline.show.screen import Screen
from pipeline.verbs.wait import wait_for
from remote.errors import HalfstepError
from remote.operations.jobs import follow_job
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command
from remote.pull.log import follow_log

RECENT_LINES = 20


def attach(run: str | None = None, as_json: bool = False) -> int:
    """Follow a running job, then show how the job ended. The exit codes are the same as for `wait`."""
    screen = Screen(as_json=as_json)
    with screen, open_run(run, Path.cwd(), prompter=None if as_json else screen) as opened:
        note, survey = opened.note, opened.survey()
        if not as_json and survey.state is JobState.RUNNING:
            stop = shell_command("pipeline stop {}", note.name)
            keeps, ends = (
                ("stays queued", "removes it from the queue") if survey.waits else ("keeps running", "ends it")
            )
            for finding in judge_begun(note, survey):
                screen.note(finding.message)
            screen.note(f"Ctrl-C detaches from {note.name}, which {keeps}; `{stop}` {ends}.")
            screen.stage_started(note.name)
            if screen.is_live:
                threading.Thread(target=_show_progress, args=(opened, screen), daemon=True).start()
            _print_output(opened, screen)
    return wait_for(note.name if survey.state is JobState.RUNNING else run, screen, "attach")


def _print_output(opened: OpenRun, screen: Screen) -> None:
    note, output = opened.note, OutputLines(terminal_width())
    for chunk in follow_log(opened.host, note.project, note.run, lines=RECENT_LINES, retry=announcing_retries(screen)):
        if text := "".join(output.feed(chunk)):
            screen.raw(text)
    screen.raw("".join(output.end()))


def _show_progress(opened: OpenRun, screen: Screen) -> None:
    """Update the live view below the output. Errors are ignored here, because `_print_output` reports them."""
    with contextlib.suppress(HalfstepError, OSError):
        for news in follow_job(opened.host, opened.note.project, opened.note.run):
            if not screen.is_live:
                return
            screen.training(news)
