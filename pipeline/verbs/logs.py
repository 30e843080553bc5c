"""`pipeline logs`: print the trainer's output or its last lines. With `--follow`, keep printing until the job ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from pipeline.hosts.follow import announcing_retries
from pipeline.hosts.output import read_output
from pipeline.records.find_run import named_run
from pipeline.show.output import LastLines, OutputLines, terminal_width
from pipeline.show.screen import Screen
from pipeline.verbs.run_outcome import outcome_for
from remote.protocol.exit_code_of import exit_code_of
from remote.protocol.exits import ExitCode


def logs(run: str | None = None, follow: bool = False, tail: int | None = None, as_json: bool = False) -> int:
    """Print the output of the run's newest job. If the host is unreachable, print the local copy and its age."""
    screen = Screen(as_json=as_json, on_stderr=True)
    kept = LastLines()
    show = kept.add if as_json else screen.raw
    output = OutputLines(None if as_json else terminal_width())

    def take(data: bytes) -> None:
        for line in output.feed(data):
            show(line)

    note, records = named_run(run, Path.cwd())
    prompter = None if as_json else screen
    retry = announcing_retries(screen) if follow else None
    found = read_output(note, records, take, lines=tail, follow=retry, on_wait=screen.note, prompter=prompter)
    for line in output.end():
        show(line)
    outcome = replace(
        outcome_for("logs", note),
        exit_code=exit_code_of(found, ExitCode.PULL),
        findings=found,
        more={"lines": kept.lines(), "omitted_lines": kept.omitted} if as_json else {},
    )
    screen.closing(outcome)
    return outcome.exit_code
