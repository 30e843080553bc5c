"""Open a recorded run of the training to evaluate or merge its adapter."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.actions.adapter_job import AdapterJob
from pipeline.config.find import find_config
from pipeline.config.hosts import LoadedHost
from pipeline.config.load import LoadedConfig, load_file
from pipeline.config.overrides import run_overrides
from pipeline.hosts.open_run import OpenRun, host_of_note, open_note
from pipeline.messages.hints import overrides_in
from pipeline.records.find_run import named_run
from pipeline.records.runs import RunNote
from pipeline.runs.backend import backend_of
from pipeline.runs.consent import require_secret_consent
from pipeline.runs.evaluation import Adapter, AdapterWork
from pipeline.runs.secrets import require_secrets, secret_values
from remote.errors import BadUsage, Busy, RemoteFault
from remote.host import read_json_answer
from remote.link.prompter import Prompter
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobSpec, JobState, RunSurvey
from remote.protocol.layout import ProjectLayout, RunLayout
from remote.protocol.shell import shell_command


@dataclass(frozen=True)
class TrainedRun:
    """A run and the connection to its host, the host's settings, and the current config of the run."""

    opened: OpenRun
    host: LoadedHost
    loaded: LoadedConfig

    @property
    def layout(self) -> RunLayout:
        """The paths of the run on the host."""
        return ProjectLayout(self.opened.note.project).run(self.opened.note.run)

    def on_host(self, path: str) -> str:
        """Return the absolute path on the host."""
        return f"{self.opened.host.workdir}/{path}"

    def training(self) -> tuple[JobSpec, Adapter]:
        """Return the spec of the run's newest job, and its adapter. Raises the errors of `require_adapter`."""
        survey = self.opened.survey()
        require_adapter(self.opened.note, survey)
        job = read_json_answer(JobSpec, self.opened.host, self.layout.job(survey.job).spec)
        return job, Adapter(self.on_host(self.layout.adapter), survey.adapter_sha256)

    def job(self, work: AdapterWork, note: RunNote) -> AdapterJob:
        """Return the job that does the work, with the secrets of the config."""
        host, config = self.host.config, self.loaded.config
        backend, secrets = backend_of(host, config), secret_values(host, config)
        return AdapterJob(work, note, self.opened.records, backend, secrets, self.opened.folder)


@contextlib.contextmanager
def open_trained_run(run: str | None, overrides: Sequence[str], prompter: Prompter | None) -> Iterator[TrainedRun]:
    """Connect to the host of a training run. Without `run`, use the run that was started or resumed last.

    Raises BadUsage for a run that evaluates or merges, and SecretsUntrusted.
    """
    note, records = named_run(run, Path.cwd())
    if note.evaluates:
        raise BadUsage(f"{note.name} is not a training run", where="RUN", hint=note.resume_command)
    # Before the config is loaded: a record of another user may name any config.
    host = host_of_note(note, records)
    loaded = _config_of(note, overrides)
    typed = any(override.startswith("secrets=") for override in overrides_in(note.given))
    require_secret_consent(loaded, prompter, typed=typed, host=host)
    require_secrets(host.config, loaded.config)
    with open_note(note, records, prompter=prompter) as opened:
        yield TrainedRun(opened, host, loaded)


def _config_of(note: RunNote, overrides: Sequence[str]) -> LoadedConfig:
    """Load the current config of a run, with the run's recorded overrides and with `overrides`."""
    words = dict(zip(note.given, note.given[1:], strict=False))
    recorded = [following for word, following in zip(note.given, note.given[1:], strict=False) if word == "--set"]
    cwd = Path.cwd()
    path = find_config(words.get("--config", note.config), cwd)
    return load_file(path, cwd, [*run_overrides(recorded), *overrides])


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
