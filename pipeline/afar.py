"""A remembered run on its host: found by name or the newest, reached as it was when it started, looked at once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pipeline.config.load import LoadedHost
from pipeline.config.model import HostConfig
from pipeline.files import write_whole
from pipeline.memory import Memory
from pipeline.outcome import JobOutcome
from pipeline.project import project_here
from pipeline.runs import NOTE, RunNote, find_note
from pipeline.session import opened
from remote.ask import Ask
from remote.errors import HalfstepError, RemoteFault
from remote.host import Host
from remote.jobs import take_survey
from remote.protocol.exits import ExitCode
from remote.protocol.jobs import JobState, RunSurvey
from remote.protocol.survey import SurveyRequest
from remote.protocol.values import dumps

OUT_OF_REACH = (ExitCode.CONNECT, ExitCode.AUTH, ExitCode.HOST_KEY, ExitCode.TEMPORARY)
"""Exit codes of errors after which what is remembered here is all there is to tell."""


@dataclass(frozen=True)
class Afar:
    """A run and the open line to its host."""

    note: RunNote
    memory: Memory
    host: Host

    @property
    def folder(self) -> Path:
        return self.memory.run(self.note.run)

    def survey(self) -> RunSurvey:
        """The run as it lies there now; remembered here. Raises RemoteFault where the host has no such run."""
        request = SurveyRequest(self.note.project, self.note.host_config.get("python") or "python3")
        run = take_survey(self.host, request).run(self.note.run)
        if run is None:
            raise RemoteFault(
                f"{self.host.name} has no run {self.note.run}",
                kind="not-found",
                where=self.host.name,
                hint=f"pipeline run --host {self.note.host} --config {self.note.config}",
                exit_code=ExitCode.JOB_LOST,
            )
        remember(self.memory, run)
        return run


def remembered(run: str | None, here: Path) -> tuple[RunNote, Memory]:
    """The run that was named, or the newest one of the project here. Raises BadUsage."""
    memory = Memory(project_here(here))
    return find_note(memory, run), memory


@contextlib.contextmanager
def run_afar(run: str | None, here: Path, *, ask: Ask | None = None, keep: bool = True) -> Iterator[Afar]:
    """The run with its host opened. Raises BadUsage, and whatever keeps the host from being reached."""
    note, memory = remembered(run, here)
    host = LoadedHost(note.host, None, HostConfig.model_validate(note.host_config))
    with opened(host, keep=keep, ask=ask) as link:
        yield Afar(note, memory, link)


def remember(memory: Memory, run: RunSurvey) -> None:
    """The project's note of a run says what was last seen of its job."""
    try:
        note = find_note(memory, run.run)
    except HalfstepError:
        return
    progress, result = run.progress, run.result
    seen = replace(
        note,
        state=run.state,
        step=progress.step if progress else note.step,
        steps=progress.steps if progress else note.steps,
        loss=progress.loss if progress else note.loss,
        exit=result.exit if result else None,
        seen_unix=time.time(),
    )
    write_whole(memory.run(run.run) / NOTE, dumps(seen))


def job_from_memory(note: RunNote, now_unix: float) -> JobOutcome:
    """What was last seen of a run's job, with its age."""
    age = now_unix - note.seen_unix if note.seen_unix else None
    return JobOutcome(
        note.state if note.seen_unix else JobState.ABSENT, note.step, note.steps, note.exit, note.loss, age
    )


def job_from_host(run: RunSurvey) -> JobOutcome:
    """The job as the host tells it now."""
    progress = run.progress
    return JobOutcome(
        run.state,
        progress.step if progress else None,
        progress.steps if progress else None,
        run.result.exit if run.result else None,
        progress.loss if progress else None,
    )
