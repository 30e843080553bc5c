"""`pipeline tensorboard`: TensorBoard itself on the local mirror, which is kept live while the job runs."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from pipeline.hosts.open_run import OUT_OF_REACH, OpenRun, open_run
from pipeline.records.runs import named_run
from pipeline.show.screen import Screen
from pipeline.verbs.options import Run
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from remote.pull.live import follow_events

app = typer.Typer(rich_markup_mode=None, add_completion=False)
VIEWER_END_S = 5.0


@app.command()
def tensorboard(
    run: Run = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free one")] = 6006,
) -> int:
    """Open the printed address in a browser; Ctrl-C ends TensorBoard and leaves the job alone."""
    screen = Screen()
    if importlib.util.find_spec("tensorboard") is None:
        raise HalfstepError(
            "TensorBoard is not installed beside halfstep",
            hint="pipx inject halfstep tensorboard",
            exit_code=ExitCode.ENVIRONMENT,
        )
    note, records = named_run(run, Path.cwd())
    folder = records.run(note.run)
    folder.mkdir(parents=True, exist_ok=True)
    with _viewer(folder, port) as viewer:
        try:
            with open_run(note.run, Path.cwd(), ask=screen, keep=False) as opened:
                _keep_live(opened, screen, viewer)
        except HalfstepError as error:
            if error.exit_code not in OUT_OF_REACH:
                raise
            screen.note(f"{note.host} is out of reach ({error.message}): the curves are those that are here")
        ended = viewer.wait()
    raise HalfstepError(
        f"TensorBoard ended by itself, exit {ended}",
        where=f"port {port}",
        hint=f"pipeline tensorboard {note.run} --port 0",
        exit_code=ExitCode.BUSY,
    )


@contextlib.contextmanager
def _viewer(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """TensorBoard over the folder, gone at the end of the block."""
    viewer = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder), "--host", "127.0.0.1",
         "--port", str(port), "--reload_interval", "2"]
    )  # fmt: skip
    try:
        yield viewer
    finally:
        viewer.terminate()
        try:
            viewer.wait(timeout=VIEWER_END_S)
        except subprocess.TimeoutExpired:
            viewer.kill()
            viewer.wait()


def _keep_live(opened: OpenRun, screen: Screen, viewer: subprocess.Popen[bytes]) -> None:
    """The mirror has every record as it is written, until the job ends or nobody looks any more."""
    for new in follow_events(opened.host, opened.note.project, opened.note.run, opened.folder):
        screen.progress(f"{new.name}: {len(new.records)} bytes more")
        if viewer.poll() is not None:
            return
