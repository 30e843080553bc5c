"""`pipeline logs`: the trainer's own output, all of it or its end, once or as it is written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.hosts.open_run import open_run
from pipeline.messages.outcome import Outcome
from pipeline.show.output import OutputLines
from pipeline.show.screen import Screen
from pipeline.verbs.options import AsJson, Run
from remote.pull.log import follow_log, read_log

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def logs(
    run: Run = None,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="go on as it is written, until the job ends")] = False,
    tail: Annotated[int | None, typer.Option(min=0, help="only the last so many lines")] = None,
    as_json: AsJson = False,
) -> int:
    """What the newest job of the run printed; progress bars as their last state, control characters spelled out."""
    screen = Screen(as_json=as_json)
    kept: list[str] = []
    show = kept.append if as_json else screen.raw
    output = OutputLines()

    def take(data: bytes) -> None:
        for line in output.feed(data):
            show(line)

    with open_run(run, Path.cwd(), ask=None if as_json else screen, keep=False) as opened:
        if follow:
            for chunk in follow_log(opened.host, opened.note.project, opened.note.run, lines=tail):
                take(chunk)
        else:
            read_log(opened.host, opened.note.project, opened.note.run, take, lines=tail)
        for line in output.end():
            show(line)
    more = {"lines": [line.rstrip("\n") for line in kept]} if as_json else {}
    screen.closing(Outcome("logs", host=opened.note.host, config=opened.note.config, run=opened.note.run, more=more))
    return 0
