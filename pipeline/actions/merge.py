"""Merge the adapter of a recorded run into its base model, as a job on the run's host."""

from __future__ import annotations

from pathlib import Path

from pipeline.actions.adapter_job import AdapterJob, Progress, run_adapter_job
from pipeline.actions.run_evaluation import config_of, require_adapter
from pipeline.hosts.open_run import host_of_note, open_note
from pipeline.messages.listener import Listener
from pipeline.records.find_run import named_run
from pipeline.runs.backend import backend_of
from pipeline.runs.consent import require_secret_consent
from pipeline.runs.evaluation import Adapter
from pipeline.runs.merging import merge_work
from pipeline.runs.secrets import require_secrets, secret_values
from pipeline.runs.start import note_of_evaluation
from remote.errors import BadUsage
from remote.host import read_json_answer
from remote.link.prompter import Prompter
from remote.protocol.jobs import JobSpec
from remote.protocol.layout import ProjectLayout

FOLDER = "merged"


def merge_run(
    run: str | None, listener: Listener, *, dequantize: bool, prompter: Prompter | None
) -> tuple[AdapterJob, Progress, str, int]:
    """Merge the adapter of a run; also return the folder of the merged checkpoint on the host, and its size in bytes.

    Without `run`, use the run that was started or resumed last. Raises Busy while the run trains, and RemoteFault if
    the run has no adapter.
    """
    note, records = named_run(run, Path.cwd())
    if note.evaluates:
        raise BadUsage(f"{note.name} is not a training run", where="RUN", hint=note.resume_command)
    # Before the config is loaded: a record of another user may name any config.
    host = host_of_note(note, records)
    loaded = config_of(note, ())
    require_secret_consent(loaded, prompter, typed=False, host=host)
    require_secrets(host.config, loaded.config)
    with open_note(note, records, prompter=prompter) as opened:
        listener.heading(f"merging {note.name} on {note.host}")
        survey = opened.survey()
        require_adapter(note, survey)
        layout = ProjectLayout(note.project).run(note.run)
        job = read_json_answer(JobSpec, opened.host, layout.job(survey.job).spec)
        folder = f"{opened.host.workdir}/{layout.root}/{FOLDER}"
        work = merge_work(
            job,
            Adapter(f"{opened.host.workdir}/{layout.adapter}", survey.adapter_sha256),
            folder,
            dequantize=dequantize,
            project=note.project,
            config=note.config,
        )
        verb = "merge --dequantize" if dequantize else "merge"
        adapter_job = AdapterJob(
            work,
            note_of_evaluation(note, work.run, note.given, verb),
            records,
            backend_of(host.config, loaded.config),
            secret_values(host.config, loaded.config),
            opened.folder,
        )
        progress = run_adapter_job(opened.host, adapter_job, listener)
        written = opened.host.list_files(f"{layout.root}/{FOLDER}")
        return adapter_job, progress, folder, sum(entry.size for entry in written if entry.kind == "f")
