"""Evaluate the adapter of a recorded run, with the model, data and precision of its training."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.actions.adapter_job import AdapterJob, Progress, run_adapter_job
from pipeline.actions.trained_run import open_trained_run
from pipeline.messages.hints import override_arguments
from pipeline.messages.listener import Listener
from pipeline.runs.evaluation import evaluation_work
from pipeline.runs.start import note_of_evaluation
from remote.errors import BadUsage
from remote.link.prompter import Prompter

SECTION = "evaluation."


def evaluate_run(
    run: str | None, overrides: Sequence[str], listener: Listener, *, prompter: Prompter | None, detach: bool = False
) -> tuple[AdapterJob, Progress]:
    """Evaluate the adapter of a run on the run's host. Without `run`, use the run that was started or resumed last.

    Raises BadUsage for overrides outside of `evaluation:`, Busy while the run trains, and RemoteFault if the run has no
    adapter.
    """
    for override in overrides:
        if not override.startswith(SECTION):
            message = f"--set {override}: only {SECTION}KEY can be set; model, data and precision are those of the run"
            raise BadUsage(message, where="--set", hint="pipeline evaluate --adapter PATH --host HOST --config NAME")
    with open_trained_run(run, overrides, prompter) as trained:
        note = trained.opened.note
        listener.heading(f"evaluating {note.name} on {note.host}")
        job, adapter = trained.training()
        work = evaluation_work(job, adapter, trained.loaded, project=note.project, config=note.config)
        words = (*note.given, *override_arguments(overrides))
        adapter_job = trained.job(work, note_of_evaluation(note, work.run, words))
        return adapter_job, run_adapter_job(trained.opened.host, adapter_job, listener, detach=detach)
