"""Evaluate the adapter of a recorded run, with the model, data and precision of its training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pipeline.actions.adapter_job import AdapterJob, Progress, run_adapter_job
from pipeline.config.find import find_config
from pipeline.config.load import LoadedConfig, load_file
from pipeline.config.overrides import run_overrides
from pipeline.hosts.open_run import OpenRun, host_of_note, open_note
from pipeline.messages.hints import override_arguments, overrides_in
from pipeline.messages.listener import Listener
from pipeline.records.find_run import named_run
from pipeline.records.runs import RunNote
from pipeline.runs.backend import backend_of
from pipeline.runs.consent import require_secret_consent
from pipeline.runs.evaluation import Adapter, AdapterWork, evaluation_work
from pipeline.runs.secrets import require_secrets, secret_values
from pipeline.runs.start import note_of_evaluation
from remote.errors import BadUsage, Busy, RemoteFault
from remote.host import read_json_answer
from remote.link.prompter import Prompter
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobSpec, JobState, RunSurvey
from remote.protocol.layout import ProjectLayout
from remote.protocol.shell import shell_command

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
    note, records = named_run(run, Path.cwd())
    if note.evaluates:
        raise BadUsage(f"{note.name} is not a training run", where="RUN", hint=note.resume_command)
    # Before the config is loaded: a record of another user may name any config.
    host = host_of_note(note, records)
    loaded = config_of(note, overrides)
    typed = any(override.startswith("secrets=") for override in overrides_in(note.given))
    require_secret_consent(loaded, prompter, typed=typed, host=host)
    require_secrets(host.config, loaded.config)
    with open_note(note, records, prompter=prompter) as opened:
        listener.heading(f"evaluating {note.name} on {note.host}")
        work = work_of(opened, loaded)
        adapter_job = AdapterJob(
            work,
            note_of_evaluation(note, work.run, (*note.given, *override_arguments(overrides))),
            records,
            backend_of(host.config, loaded.config),
            secret_values(host.config, loaded.config),
            opened.folder,
        )
        return adapter_job, _evaluate(opened, adapter_job, listener, detach=detach)


def _evaluate(opened: OpenRun, adapter_job: AdapterJob, listener: Listener, *, detach: bool) -> Progress:
    return run_adapter_job(opened.host, adapter_job, listener, detach=detach)


def config_of(note: RunNote, overrides: Sequence[str]) -> LoadedConfig:
    """Load the current config of a run, with the run's recorded overrides and with `overrides`."""
    words = dict(zip(note.given, note.given[1:], strict=False))
    recorded = [following for word, following in zip(note.given, note.given[1:], strict=False) if word == "--set"]
    cwd = Path.cwd()
    path = find_config(words.get("--config", note.config), cwd)
    return load_file(path, cwd, [*run_overrides(recorded), *overrides])


def work_of(opened: OpenRun, loaded: LoadedConfig) -> AdapterWork:
    """Derive the evaluation of the run's adapter from the spec of the run's newest job."""
    note, run = opened.note, opened.survey()
    require_adapter(note, run)
    layout = ProjectLayout(note.project).run(note.run)
    job = read_json_answer(JobSpec, opened.host, layout.job(run.job).spec)
    adapter = Adapter(f"{opened.host.workdir}/{layout.adapter}", run.adapter_sha256)
    return evaluation_work(job, adapter, loaded, project=note.project, config=note.config)


def require_adapter(note: RunNote, run: RunSurvey) -> None:
    """Raise Busy while the run trains, and RemoteFault if the run has no adapter."""
    if run.state is JobState.RUNNING:
        message = f"{note.name} is still training; its adapter is exported at the end"
        raise Busy(
            message,
            where=note.host,
            hint=shell_command("pipeline wait {} && pipeline evaluate {}", note.name, note.name),
        )
    if not run.adapter_sha256:
        succeeded = run.state is JobState.SUCCEEDED
        why = "its training succeeded, but saved none" if succeeded else f"state of its training: {run.state.value}"
        raise RemoteFault(
            f"{note.name} has no PEFT adapter ({why})",
            kind="no-adapter",
            where=note.host,
            # Another `pipeline run` would do nothing; `pull` names the weights that the training saved instead.
            hint=shell_command("pipeline pull {} --weights", note.name) if succeeded else note.resume_command,
            exit_code=ExitCode.PULL,
        )
