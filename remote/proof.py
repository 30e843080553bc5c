"""The proof from the laptop's side: steps as they happen, the report at the end."""

from __future__ import annotations

from collections.abc import Callable

from remote.errors import ConnectionLost
from remote.host import Host, Json
from remote.protocol.proof import ProofReport, ProofRequest
from remote.protocol.values import decode, encode

SILENCE_S = 60.0


def run_proof(host: Host, request: ProofRequest, told: Callable[[Json], None] | None = None) -> ProofReport:
    """The report of a proof on the host, which is as it was before. `told` hears of every optimizer step seen.

    Raises ConnectionLost where the line ends before the report; the host then ends the proof by itself.
    """
    for event in host.follow("proof.run", encode(request), timeout_s=SILENCE_S):
        if "report" in event:
            return decode(ProofReport, event["report"])
        if "step" in event and told is not None:
            told(event["step"])
    raise ConnectionLost("the proof ended without a report", where=host.name)
