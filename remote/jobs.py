"""Jobs on a host, as the laptop asks for them."""

from __future__ import annotations

from collections.abc import Iterator

from remote.host import Host
from remote.protocol.jobs import JobNews, StartAnswer, StartRequest, StopAnswer
from remote.protocol.survey import Survey, SurveyRequest
from remote.protocol.values import decode, encode

STOP_SLACK_S = 90.0


def take_survey(host: Host, request: SurveyRequest) -> Survey:
    """The host at this moment, in one exchange; nothing there is changed."""
    return decode(Survey, host.ask("survey", encode(request)))


def start_job(host: Host, request: StartRequest) -> StartAnswer:
    """The job runs, or ran: asking again, from here or anywhere, never starts it twice. Raises RemoteFault `busy`."""
    return decode(StartAnswer, host.act("job.start", encode(request)))


def adopt_job(host: Host, project: str, run: str) -> StartAnswer:
    """The run's newest job has a living supervisor again where it had lost it."""
    return decode(StartAnswer, host.act("job.adopt", {"project": project, "run": run}))


def stop_job(host: Host, project: str, run: str, *, grace_s: float | None = None) -> StopAnswer:
    """No process of the run is left; what it saved stays. `grace_s` None: the spec's; 0: at once."""
    args = {"project": project, "run": run, "grace_s": grace_s}
    return decode(StopAnswer, host.act("job.stop", args, timeout_s=(grace_s or 3600.0) + STOP_SLACK_S))


def follow_job(host: Host, project: str, run: str, *, job: int | None = None) -> Iterator[JobNews]:
    """Every new step and state of a job (None: the newest), pushed by the host until it no longer runs."""
    for news in host.follow("job.wait", {"project": project, "run": run, "job": job}):
        yield decode(JobNews, news)


def list_jobs(host: Host, project: str, run: str) -> tuple[StartAnswer, ...]:
    """Every job of a run, oldest first."""
    answer = host.ask("job.list", {"project": project, "run": run})
    return decode(tuple[StartAnswer, ...], answer["jobs"])
