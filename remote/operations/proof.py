"""Run a precision proof on a host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from remote.errors import ConnectionLost
from remote.host import Host, read_answer
from remote.link.host_hints import findings_of_host
from remote.protocol.card import QUEUE_S, CardReport, CardRequest
from remote.protocol.proof import ProofReport, ProofRequest, ProvedStep
from remote.protocol.values import encode

COPY_LIMIT_S = 900.0
"""The time that is added to the timeout of the command, for copying the project and ending the processes."""


def run_proof(host: Host, request: ProofRequest, *, on_step: Callable[[ProvedStep], None] | None = None) -> ProofReport:
    """Run a few real optimizer steps and return the report. Leaves nothing on the host.

    `on_step` is called after each step. Raises RemoteFault if the proof cannot run. If the connection is lost,
    ConnectionLost is raised, and the proof ends by itself.
    """
    queue_s = QUEUE_S if request.slurm is not None else 0.0
    for event in host.follow("proof.run", encode(request), within_s=queue_s + request.deadline_s + COPY_LIMIT_S):
        if "report" in event:
            report = read_answer(ProofReport, host, event["report"])
            return replace(report, findings=findings_of_host(report.findings))
        if "step" in event and on_step is not None:
            on_step(read_answer(ProvedStep, host, event["step"]))
    raise ConnectionLost("the proof ended without a report", where=host.name, hint="pipeline verify")


def step_card(host: Host, request: CardRequest) -> CardReport:
    """Run twenty steps of a small LoRA model on the host's device. Writes nothing to the host's disk."""
    queue_s = QUEUE_S if request.slurm is not None else 0.0
    answer = host.ask("card.step", encode(request), timeout_s=queue_s + request.deadline_s + 15.0)
    report = read_answer(CardReport, host, answer)
    return replace(report, findings=findings_of_host(report.findings))
