"""`pipeline pull`: bring a run's logs (and its adapter) home."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipeline.afar import job_from_host, run_afar
from pipeline.files import locked
from pipeline.homecoming import bring_home
from pipeline.outcome import Outcome
from pipeline.runs import artifacts_of
from pipeline.show.screen import Screen
from pipeline.show.words import size
from pipeline.verbs.options import AsJson, Run
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Severity

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command()
def pull(
    run: Run = None,
    weights: Annotated[bool, typer.Option("--weights", help="the adapter too, digests verified")] = False,
    as_json: AsJson = False,
) -> int:
    """Bring home what is not here yet; what is here is only ever added to."""
    screen = Screen(as_json=as_json)
    with run_afar(run, Path.cwd(), ask=None if as_json else screen, keep=False) as afar:
        survey = afar.survey()
        with locked(afar.folder / "pull.lock", f"pull {survey.run}"):
            home = bring_home(afar.host, afar.note.project, survey, afar.folder, weights=weights, telling=screen)
    errors = [finding for finding in home.findings if finding.severity is Severity.ERROR]
    outcome = Outcome(
        "pull",
        ExitCode.PULL if errors else ExitCode.OK,
        host=afar.note.host,
        config=afar.note.config,
        run=survey.run,
        findings=home.findings,
        job=job_from_host(survey),
        artifacts=artifacts_of(afar.memory, survey.run),
    )
    if weights and not survey.adapter_sha256:
        screen.note(f"{survey.run} has no adapter")
    screen.note(f"{size(home.added_bytes)} came home to {afar.folder}")
    screen.closing(outcome)
    return outcome.exit_code
