"""`pipeline tail`: live scalars from the host's TensorBoard files, each kept in the mirror before it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.hosts.open_run import open_run
from pipeline.messages.outcome import Outcome
from pipeline.show.screen import Screen
from pipeline.verbs.options import AsJson, Run
from remote.protocol.events import Scalar
from remote.pull.live import tail_scalars

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def tail(
    run: Run = None,
    only: Annotated[
        list[str] | None, typer.Option("--tag", help="only tags that contain this; may be repeated")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="leave out what was written before now")] = False,
    as_json: AsJson = False,
) -> int:
    """Every scalar as `step tag value`, until the job has ended."""
    screen = Screen(as_json=as_json)
    seen: list[Scalar] = []
    with open_run(run, Path.cwd(), ask=None if as_json else screen, keep=False) as opened:
        for scalar in tail_scalars(opened.host, opened.note.project, opened.note.run, opened.folder, history=not new):
            if only and not any(word in scalar.tag for word in only):
                continue
            if as_json:
                seen.append(scalar)
            else:
                screen.raw(f"{scalar.step:>8}  {scalar.tag:<32} {scalar.value:.6g}\n")
    more = {"scalars": [{"step": s.step, "tag": s.tag, "value": s.value} for s in seen]} if as_json else {}
    screen.closing(Outcome("tail", host=opened.note.host, config=opened.note.config, run=opened.note.run, more=more))
    return 0
