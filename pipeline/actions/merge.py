"""Merge the adapter of a recorded run into its base model, as a job on the run's host."""

from __future__ import annotations

from pipeline.actions.adapter_job import AdapterJob, Progress, run_adapter_job
from pipeline.actions.trained_run import open_trained_run
from pipeline.messages.listener import Listener
from pipeline.runs.merging import merge_work
from pipeline.runs.start import note_of_evaluation
from remote.link.prompter import Prompter

FOLDER = "merged"


def merge_run(
    run: str | None, listener: Listener, *, dequantize: bool, prompter: Prompter | None
) -> tuple[AdapterJob, Progress, str, int]:
    """Merge the adapter of a run; also return the folder of the merged checkpoint on the host, and its size in bytes.

    Without `run`, use the run that was started or resumed last. Raises Busy while the run trains, and RemoteFault if
    the run has no adapter.
    """
    with open_trained_run(run, (), prompter) as trained:
        note, host = trained.opened.note, trained.opened.host
        listener.heading(f"merging {note.name} on {note.host}")
        job, adapter = trained.training()
        place = f"{trained.layout.root}/{FOLDER}"
        folder = trained.on_host(place)
        work = merge_work(job, adapter, folder, dequantize=dequantize, project=note.project, config=note.config)
        verb = "merge --dequantize" if dequantize else "merge"
        adapter_job = trained.job(work, note_of_evaluation(note, work.run, note.given, verb))
        progress = run_adapter_job(host, adapter_job, listener)
        written = host.list_files(place)
        return adapter_job, progress, folder, sum(entry.size for entry in written if entry.kind == "f")
