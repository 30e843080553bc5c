"""Jobs on a host, as the laptop asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from remote.host import Host, read_answer
from remote.protocol.environment import EnvironmentFacts, EnvironmentRequest
from remote.protocol.jobs import JobNews, JobState, ResumePoint, RunSurvey, StartAnswer, StartRequest, StopAnswer
from remote.protocol.survey import Survey, SurveyRequest
from remote.protocol.values import encode

SILENCE_S = 45.0
"""The host says something every 10 s while it waits for a job to end."""


def take_survey(host: Host, request: SurveyRequest) -> Survey:
    """The host at this moment, in one exchange; nothing there is changed."""
    return read_answer(Survey, host, host.ask("survey", encode(request)))


def start_job(host: Host, request: StartRequest) -> StartAnswer:
    """The job runs, or ran: asking again, from here or anywhere, never starts it twice. Raises RemoteFault `busy`."""
    return read_answer(StartAnswer, host, host.act("job.start", encode(request)))


def adopt_job(host: Host, project: str, run: str) -> StartAnswer:
    """The run's newest job has a supervisor again where its own was killed, or its result where it ended meanwhile."""
    return read_answer(StartAnswer, host, host.act("job.adopt", {"project": project, "run": run}))


def take_up_job(host: Host, project: str, run: RunSurvey | None) -> bool:
    """Where the survey shows a job without its supervisor, it was taken up, and is to be looked at again (True)."""
    if run is None or not (run.orphans or run.state is JobState.LOST):
        return False
    adopt_job(host, project, run.run)
    return True


def stop_job(host: Host, project: str, run: str, *, grace_s: float | None = None) -> StopAnswer:
    """No process of the run is left; what it saved stays. `grace_s` None: the spec's; 0: at once."""
    args = {"project": project, "run": run, "grace_s": grace_s}
    return read_answer(StopAnswer, host, host.act("job.stop", args, timeout_s=SILENCE_S))


def follow_job(host: Host, project: str, run: str, *, job: int | None = None) -> Iterator[JobNews]:
    """Every new step and state of a job (None: the newest), pushed by the host until it no longer runs."""
    for news in host.follow("job.wait", {"project": project, "run": run, "job": job}):
        yield read_answer(JobNews, host, news)


def list_jobs(host: Host, project: str, run: str) -> tuple[StartAnswer, ...]:
    """Every job of a run, oldest first."""
    answer = host.ask("job.list", {"project": project, "run": run})
    return read_answer(tuple[StartAnswer, ...], host, answer["jobs"])


def prepare_resume(host: Host, project: str, run: str) -> ResumePoint:
    """The newest checkpoint of a run whose every digest agrees; broken ones are set aside by name.

    Raises RemoteFault `no-checkpoint`, exit 43, where there is none, and `busy` while a job runs.
    """
    return read_answer(ResumePoint, host, host.act("checkpoints.prepare", {"project": project, "run": run}))


def probe_environment(host: Host, request: EnvironmentRequest) -> EnvironmentFacts:
    """What only running the interpreter can tell; the next survey remembers its part of it."""
    return read_answer(
        EnvironmentFacts, host, host.act("environment.probe", encode(request), timeout_s=request.deadline_s + SILENCE_S)
    )
