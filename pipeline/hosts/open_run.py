"""Open a recorded run: find its record and connect to its host."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.config.find import is_configured_host
from pipeline.config.host_model import HostConfig
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.hosts.connection import connected
from pipeline.records.find_run import named_run
from pipeline.records.host_trust import OLDER
from pipeline.records.last_seen import note_seen
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import START_AGAIN, RunNote
from remote.errors import BadUsage, HalfstepError, HostFileUntrusted, HostKeyRefused, Interrupted, RemoteFault
from remote.host import Host
from remote.link.prompter import Prompter
from remote.link.ssh.options import expand_home
from remote.operations.jobs import adopt_if_orphaned, survey_runs
from remote.project.identity import project_of
from remote.project.paths import resolved
from remote.project.user_folder import home
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.hidden import hide
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.runs import RunsSurvey
from remote.protocol.shell import shell_command

UNREACHABLE = (ExitCode.CONNECT, ExitCode.AUTH, ExitCode.HOST_KEY, ExitCode.TEMPORARY)
"""Exit codes of an unreachable host: the run's last known state may still be valid."""
UNREACHABLE_OR_GONE = (*UNREACHABLE, ExitCode.JOB_LOST)
"""Exit codes after which only local data can be shown: the host is unreachable, or no longer has the run."""


@dataclass(frozen=True)
class OpenRun:
    """A run and the connection to its host."""

    note: RunNote
    records: Records
    host: Host

    @property
    def folder(self) -> Path:
        """The local folder of the run."""
        return self.records.folder_named(self.note.name)

    def survey(self) -> RunSurvey:
        """Survey the run and record its state. Raises RemoteFault if the host has no such run."""
        return self.look()[0]

    def look(self) -> tuple[RunSurvey, Mapping[str, str]]:
        """Survey the run; also return the project's other runs that run on the host, or are queued there, by name.

        If the run's supervisor was killed, a new supervisor is started for the job first.
        """
        survey = self.survey_runs()
        if adopt_if_orphaned(self.host, self.note.project, survey.run(self.note.run)):
            survey = self.survey_runs()
        run = survey.run(self.note.run)
        if run is None:
            message = f"{self.host.name} has no run {self.note.name}"
            raise RemoteFault(message, kind="no-run", where=self.host.name, exit_code=ExitCode.JOB_LOST)
        note_seen(self.folder, run)
        others = (one for one in survey.runs if one.state is JobState.RUNNING and one.run != run.run)
        return run, {self.records.run_name(other.run, self.note.host): other.shown_state for other in others}

    def survey_runs(self) -> RunsSurvey:
        """Survey all runs of the project."""
        return survey_runs(self.host, self.note.project)


@contextlib.contextmanager
def open_run(run: str | None, cwd: Path, *, prompter: Prompter | None = None, keep: bool = True) -> Iterator[OpenRun]:
    """Find a run by name and connect to its host. Raises BadUsage, and the errors of `open_note`."""
    with open_note(*named_run(run, cwd), prompter=prompter, keep=keep) as opened:
        yield opened


@contextlib.contextmanager
def open_note(
    note: RunNote, records: Records, *, prompter: Prompter | None = None, keep: bool = True
) -> Iterator[OpenRun]:
    """Connect to the host of a recorded run. Errors contain the names of the host, the config and the run."""
    about = {"host": note.host, "config": note.config if note.own else "", "run": note.name}
    if note.own:
        hide(os.environ.get(name, "") for name in note.secrets)
    host = host_of_note(note, records)
    try:
        with connected(host, keep=keep, prompter=prompter) as link:
            yield OpenRun(note, records, link)
    except KeyboardInterrupt:
        stopped = Interrupted("interrupted")
        stopped.about = about
        raise stopped from None
    except HalfstepError as error:
        error.about = about
        _explain_recorded_keys(error, note)
        _explain_recorded_file(error, note)
        if error.exit_code is ExitCode.JOB_LOST:
            error.hint = error.hint or note.start_command
        raise


def _explain_recorded_keys(error: HalfstepError, note: RunNote) -> None:
    """Replace the hint of a login that the keys in the record refused: a change of the file has no effect on them."""
    named = note.host_config.get("known_hosts")
    if not isinstance(error, HostKeyRefused) or not note.trust.known_hosts or not isinstance(named, str):
        return
    if error.where.rpartition(":")[0] == expand_home(named, home(os.environ)) and note.own:
        either = "only if the machine was reinstalled: add its new key to your own known_hosts, or start again"
        error.hint = f"{either}: {note.resume_command}"


def _explain_recorded_file(error: HalfstepError, note: RunNote) -> None:
    """Replace the hint of an unconfirmed host file: it may have changed, and `hosts check` reads it as it is now."""
    if isinstance(error, HostFileUntrusted) and note.own:
        again = shell_command("pipeline status {}", note.name)
        ask = f"read the host file, then confirm it at a terminal with: {again}"
        error.hint = note.resume_command if note.trust.file == OLDER else ask


def host_of_note(note: RunNote, records: Records) -> LoadedHost:
    """Return the host of a run, with the settings that the run was started with. Raises BadUsage.

    The settings of a project's host file count as such, and the host keys of its `known_hosts:` are those of the start.
    A record that this user did not write (for example, in a cloned project) is used only if its host is the plain name
    of a configured host with equal settings, and if it names this project. A path, an address or an ssh command could
    select a machine that the user has not chosen, and `stop` would act on another project's runs.
    """
    try:
        remembered = HostConfig.model_validate(note.host_config)
    except ValueError:
        message = f"the record of {note.name} is damaged: it has no valid host settings"
        raise BadUsage(message, where=str(records.folder_named(note.name) / NOTE), hint=START_AGAIN) from None
    if note.own:
        lines = note.trust.known_hosts
        known = None if lines is None else lines.encode("utf-8", "surrogateescape")
        return LoadedHost(
            note.host, None, remembered, note.trust.file, known_hosts_data=known, chosen=note.trust.chosen
        )
    if not is_configured_host(note.host, records.root):
        raise _foreign(note, records, f"{note.host!r} is not the name of a configured host")
    if note.project != project_of(resolved(records.root)):
        raise _foreign(note, records, f"it names the project {note.project}")
    host = load_host(note.host, records.root)
    if host.config != remembered:
        raise _foreign(note, records, f"its host {note.host} differs from the configured one")
    return host


def _foreign(note: RunNote, records: Records, why: str) -> BadUsage:
    message = f"the record of {note.name} was not written by you on this machine, and {why}"
    return BadUsage(message, where=str(records.folder_named(note.name) / NOTE), hint=START_AGAIN)


def unreachable_warning(note: RunNote, error: HalfstepError, instead: str) -> Finding:
    """Return a warning that the host is unreachable or lacks the run.

    `instead` describes the data that is shown instead. The warning has the exit code of the error.
    """
    if error.exit_code is ExitCode.JOB_LOST:
        message = f"{note.host} has no run {note.name} any more; {instead}"
        return Finding("remote-fault", Severity.WARNING, message, note.host, error.hint, error.exit_code)
    message = f"{note.host} is unreachable ({error.message}); {instead}"
    return Finding("unreachable", Severity.WARNING, message, note.host, error.hint, error.exit_code)
