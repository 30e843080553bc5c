"""Start, stop, follow and resume jobs on a host."""

from __future__ import annotations

from collections.abc import Iterator

from remote.host import Host, read_answer, read_field
from remote.protocol.card import QUEUE_S
from remote.protocol.environment import EnvironmentFacts, EnvironmentRequest
from remote.protocol.job_requests import StartRequest, StopAnswer
from remote.protocol.jobs import JobNews, JobState, ResumePoint, RunSurvey, StartAnswer
from remote.protocol.runs import RunsRequest, RunsSurvey
from remote.protocol.slurm import ArrayRequest
from remote.protocol.survey import Survey, SurveyRequest
from remote.protocol.values import encode
from remote.pull.reconnect import RetryPolicy, follow_on

SILENCE_S = 45.0
"""The timeout for a host that waits for a job to end. It is longer than the 10 s between two heartbeats."""


def take_survey(host: Host, request: SurveyRequest) -> Survey:
    """Survey the host with one request. Changes nothing."""
    return read_answer(Survey, host, host.ask("survey", encode(request)))


def survey_runs(host: Host, project: str) -> RunsSurvey:
    """Survey the runs of a project, but not the machine. Changes nothing."""
    return read_answer(RunsSurvey, host, host.ask("runs.survey", encode(RunsRequest(project))))


def start_job(host: Host, request: StartRequest) -> StartAnswer:
    """Start a job. Repeated calls do not start it again. Raises RemoteFault with the kind `busy`."""
    return read_answer(StartAnswer, host, host.act("job.start", encode(request)))


def join_run(host: Host, project: str, run: str) -> bool:
    """If only another project of the account has the run, add it to this project. Return True if it was added."""
    return read_field(bool, host, host.act("run.join", {"project": project, "run": run}), "joined")


def submit_held(host: Host, request: ArrayRequest) -> None:
    """Submit the jobs that were started with `hold` to Slurm. Jobs with the same options become one array."""
    host.act("job.submit", encode(request), timeout_s=SILENCE_S)


def adopt_job(host: Host, project: str, run: str) -> StartAnswer:
    """Start a new supervisor for the run's newest job if the old supervisor was killed.

    Record the result of a job that ended.
    """
    return read_answer(StartAnswer, host, host.act("job.adopt", {"project": project, "run": run}))


def adopt_if_orphaned(host: Host, project: str, run: RunSurvey | None) -> bool:
    """Call `adopt_job` if the survey shows that the job's supervisor died. Return True if it was called."""
    if run is None or not (run.orphans or run.state is JobState.LOST):
        return False
    adopt_job(host, project, run.run)
    return True


def stop_job(host: Host, project: str, run: str, *, grace_s: float | None = None) -> StopAnswer:
    """Stop every process of the run.

    `grace_s` is the time that the job has to save a checkpoint: None means the time in the job's spec, and 0 kills the
    job at once.
    """
    args = {"project": project, "run": run, "grace_s": grace_s}
    return read_answer(StopAnswer, host, host.act("job.stop", args, timeout_s=SILENCE_S))


def follow_job(
    host: Host, project: str, run: str, *, job: int | None = None, retry: RetryPolicy | None = None
) -> Iterator[JobNews]:
    """Yield each new step and state of a job until the job ends. If `job` is None, the newest job is followed.

    After a lost connection, the job is followed again. Raises the last error when the retries are exhausted.
    """
    args = {"project": project, "run": run, "job": job}
    for news in follow_on(host, "job.wait", lambda: args, retry or RetryPolicy()):
        yield read_answer(JobNews, host, news)


def list_jobs(host: Host, project: str, run: str) -> tuple[StartAnswer, ...]:
    """List every job of a run, oldest first."""
    answer = host.ask("job.list", {"project": project, "run": run})
    return read_field(tuple[StartAnswer, ...], host, answer, "jobs")


def prepare_resume(host: Host, project: str, run: str) -> ResumePoint:
    """Return the run's newest trainer checkpoint whose digests all match. Rename broken checkpoints.

    Raises RemoteFault with the kind `no-checkpoint` (exit code 43) if no checkpoint is intact, or `busy` while a job
    runs.
    """
    return read_answer(ResumePoint, host, host.act("checkpoints.prepare", {"project": project, "run": run}))


def probe_environment(host: Host, request: EnvironmentRequest) -> EnvironmentFacts:
    """Test imports and cards with the host's interpreter. The host caches the result for its next survey."""
    timeout_s = request.deadline_s + SILENCE_S + (QUEUE_S if request.slurm is not None else 0.0)
    return read_answer(EnvironmentFacts, host, host.act("environment.probe", encode(request), timeout_s=timeout_s))
