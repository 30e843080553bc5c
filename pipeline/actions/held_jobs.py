"""Submit the jobs of several runs to Slurm as one array, after each was prepared."""

from __future__ import annotations

from dataclasses import replace

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.connection import connected
from remote.host import Host
from remote.link.prompter import Prompter
from remote.operations.jobs import start_job, submit_held
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import StartAnswer
from remote.protocol.slurm import ArrayRequest, HeldJob

SLURM = "slurm"


class HeldJobs:
    """Collects the start requests of Slurm jobs. Jobs of other backends are started at once."""

    def __init__(self) -> None:
        self._requests: list[StartRequest] = []

    def start(self, host: Host, request: StartRequest) -> StartAnswer:
        """Prepare the job on the host. Its secrets are sent later, with the array."""
        if request.backend != SLURM:
            return start_job(host, request)
        answer = start_job(host, replace(request, hold=True, secrets={}))
        self._requests.append(request)
        return answer

    @property
    def runs(self) -> frozenset[str]:
        """The ids of the runs whose jobs were prepared."""
        return frozenset(one.spec.run for one in self._requests)

    def submit(self, host: LoadedHost, prompter: Prompter | None) -> None:
        """Submit all prepared jobs: one array for each project and set of options."""
        by_project: dict[str, list[HeldJob]] = {}
        for one in self._requests:
            by_project.setdefault(one.project, []).append(HeldJob(one.spec.run, one.spec.number, one.secrets))
        if not by_project:
            return
        with connected(host, keep=True, prompter=prompter) as link:
            for project, jobs in by_project.items():
                submit_held(link, ArrayRequest(project, tuple(jobs)))
