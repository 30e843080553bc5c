"""`pipeline tensorboard`: TensorBoard itself on the local mirror, which is kept live while the job runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.afar import Afar, run_afar
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
    with run_afar(run, Path.cwd(), ask=screen, keep=False) as afar:
        afar.folder.mkdir(parents=True, exist_ok=True)
        viewer = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", "--logdir", str(afar.folder), "--host", "127.0.0.1",
             "--port", str(port), "--reload_interval", "2"]
        )  # fmt: skip
        try:
            _keep_live(afar, screen)
            return viewer.wait()
        finally:
            viewer.terminate()
            viewer.wait(timeout=VIEWER_END_S)


def _keep_live(afar: Afar, screen: Screen) -> None:
    """The mirror has every record as it is written, until the job ends."""
    for new in follow_events(afar.host, afar.note.project, afar.note.run, afar.folder):
        screen.progress(f"{new.name}: {len(new.records)} bytes more")
