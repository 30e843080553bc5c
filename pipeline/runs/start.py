"""The start request of a job, and the record of its run."""

from __future__ import annotations

import os
import time

from pipeline.hosts.recorded_trust import trust_in
from pipeline.messages.hints import with_absolute_paths
from pipeline.records.runs import RunNote
from pipeline.runs.backend import backend_of
from pipeline.runs.command import command_of, data_at, environment_of, job_place, ranks_of, steps_of
from pipeline.runs.run_id import work_fingerprint
from pipeline.runs.secrets import require_secrets, secret_marks, secrets_of
from pipeline.runs.view import View
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import JobSpec, JobState, RunSurvey


def next_number(run: RunSurvey | None) -> int:
    """Return the number of the next job. The number of a job that was created but never started is reused."""
    if run is None:
        return 1
    return max(run.job, 1) if run.state is JobState.ABSENT else run.job + 1


def note_of(view: View, name: str) -> RunNote:
    """Return the record of a run. Later commands find the run by this record, without its config."""
    return RunNote(
        run=name,
        host=view.host.name,
        config=view.loaded.name,
        project=view.layout.key,
        created_unix=_created_unix(view, name),
        host_config=view.host.config.model_dump(mode="json"),
        trust=trust_in(view.host),
        cures=tuple(cure.name for cure in view.cures),
        given=with_absolute_paths(view.given),
        varied=view.loaded.varied,
        rewritten=tuple(sorted(view.survey.tree.fixed)),
        secrets=secrets_of(view.host.config, view.config),
        secret_marks=secret_marks(secrets_of(view.host.config, view.config)),
        own_command=view.config.command is not None,
    )


def _created_unix(view: View, name: str) -> float:
    """Return the time when the host created the run, or the current time for a new run."""
    known = view.survey.run(name)
    return min(known.created_unix if known is not None and known.created_unix else time.time(), time.time())


def note_of_evaluation(training: RunNote, run: str, given: tuple[str, ...], verb: str = "evaluate") -> RunNote:
    """Return the record of a run that evaluates or merges the adapter of a recorded training run.

    It is signed as the user's own only if the record of the training run has such a signature.
    """
    return RunNote(
        run=run,
        host=training.host,
        config=training.config,
        project=training.project,
        created_unix=time.time(),
        host_config=training.host_config,
        trust=training.trust,
        cures=training.cures,
        given=given,
        evaluates=training.name,
        varied=training.varied,
        verb=verb,
        own=training.own,
        secrets=training.secrets,
        secret_marks=secret_marks(training.secrets),
    )


def start_request(
    view: View, name: str, number: int, resume_from: str, *, fresh_code: bool = False, queue: bool = False
) -> StartRequest:
    """Return the request that starts a job.

    With `fresh_code`, the run gets a new copy of the project's files. With `queue`, the job waits on the host until the
    jobs on its cards have ended. Raises BadUsage if a secret is not set in the local environment.
    """
    require_secrets(view.host.config, view.config)
    names = secrets_of(view.host.config, view.config)
    backend, place = backend_of(view.host.config, view.config), job_place(view)
    spec = JobSpec(
        run=name,
        number=number,
        fingerprint=work_fingerprint(view),
        argv=command_of(view, place, backend.nodes),
        environment=environment_of(view, place, backend.nodes),
        secrets=names,
        steps=steps_of(view),
        resume_from=resume_from,
        grace_s=view.config.grace_s,
        processes=ranks_of(view),
        hosts=len(view.group.hosts) if view.group is not None else backend.nodes,
        notify=view.config.notify or "",
        data=data_at(view, place),
    )
    return StartRequest(
        project=view.layout.key,
        spec=spec,
        config=view.loaded.name,
        settings={"config": view.config.model_dump(mode="json"), "cures": [cure.name for cure in view.cures]},
        secrets={secret: os.environ[secret] for secret in names},
        backend=backend.name,
        slurm=backend.for_training,
        fresh_code=fresh_code,
        max_jobs=backend.max_jobs,
        queue=queue,
    )
