"""Submit the jobs of several runs to Slurm as one array, after each was prepared."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from pipeline.hosts.connection import connected
from remote.host import Host
from remote.link.address import Address
from remote.link.prompter import Prompter
from remote.operations.jobs import start_job, submit_held
from remote.protocol.job_requests import StartRequest
from remote.protocol.jobs import StartAnswer
from remote.protocol.slurm import ArrayRequest, HeldJob

SLURM = "slurm"


class HeldJobs:
    """Collects the start requests of Slurm jobs, by host. Jobs of other backends are started at once.

    Configs of two projects can name different machines with the same name, so a host is identified by its address.
    """

    def __init__(self) -> None:
        self._requests: dict[Address, list[StartRequest]] = {}

    def start_on(self, selected: LoadedHost) -> Callable[[Host, StartRequest], StartAnswer]:
        """Return the function that prepares a job on the selected host. Its secrets are sent later, with the array."""

        def start(host: Host, request: StartRequest) -> StartAnswer:
            if request.backend != SLURM:
                return start_job(host, request)
            answer = start_job(host, replace(request, hold=True, secrets={}))
            self._requests.setdefault(address_of(selected), []).append(request)
            return answer

        return start

    def runs_on(self, host: LoadedHost) -> frozenset[str]:
        """The ids of the runs whose jobs were prepared on the host."""
        return frozenset(one.spec.run for one in self._requests.get(address_of(host), ()))

    def submit(self, host: LoadedHost, prompter: Prompter | None) -> None:
        """Submit all jobs that were prepared on the host: one array for each project and set of options."""
        by_project: dict[str, list[HeldJob]] = {}
        for one in self._requests.get(address_of(host), ()):
            by_project.setdefault(one.project, []).append(HeldJob(one.spec.run, one.spec.number, one.secrets))
        if not by_project:
            return
        with connected(host, keep=True, prompter=prompter) as link:
            for project, jobs in by_project.items():
                submit_held(link, ArrayRequest(project, tuple(jobs)))
