"""Wait until no job of the project uses the card. Used before the proof, if a command has several runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline.hosts.connection import survey_host
from pipeline.runs.run_id import run_id
from pipeline.stages.stage import Context, Phase
from remote.errors import Busy
from remote.protocol.jobs import JobState
from remote.protocol.shell import shell_command
from remote.protocol.survey import Survey

POLL_S = 5.0


def await_free_card(context: Context, sleep: Callable[[float], None] = time.sleep) -> None:
    """Wait until the project's other runs have ended, because their jobs may use all memory of the card.

    With `--detach`, raise Busy instead of waiting.
    """
    view, options = context.view, context.options
    if options.phase is Phase.ALL or view.host.config.scheduler is not None:
        return
    survey = view.survey
    device = "card" if survey.gpus else "machine"
    while run := _others(survey, run_id(view)):
        training = view.records.run_name(run, view.host.name)
        if options.detach:
            message = f"{training} uses the {device}, and the proof needs it"
            raise Busy(message, where=view.host.name, hint=shell_command("pipeline wait {}", training))
        context.listener.progress(f"waiting for {training} to end: the proof needs the {device}")
        sleep(POLL_S)
        survey = survey_host(context.host, view.host, view.layout.key)


def _others(survey: Survey, own: str) -> str:
    """Return the id of another run whose job is running, or "" if there is none."""
    return next((run.run for run in survey.runs if run.state is JobState.RUNNING and run.run != own), "")
