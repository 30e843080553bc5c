"""A proof, as the laptop asks for it."""

from __future__ import annotations

from collections.abc import Callable

from remote.errors import ConnectionLost
from remote.host import Host, read_answer
from remote.protocol.card import CardReport, CardRequest
from remote.protocol.proof import ProofReport, ProofRequest, StepSeen
from remote.protocol.values import encode


def run_proof(host: Host, request: ProofRequest, *, told: Callable[[StepSeen], None] | None = None) -> ProofReport:
    """What a few real optimizer steps showed; the host is as it was before. `told` hears each step as it happens.

    Raises RemoteFault where it could not be run, ConnectionLost where the line went away: the proof ends itself then.
    """
    for event in host.follow("proof.run", encode(request)):
        if "report" in event:
            return read_answer(ProofReport, host, event["report"])
        if "step" in event and told is not None:
            told(read_answer(StepSeen, host, event["step"]))
    raise ConnectionLost("the proof ended without a report", where=host.name, hint="pipeline verify")


def step_card(host: Host, request: CardRequest) -> CardReport:
    """What twenty steps of a small LoRA model did on the host's own device; nothing is written there."""
    return read_answer(CardReport, host, host.ask("card.step", encode(request), timeout_s=request.deadline_s + 15.0))
