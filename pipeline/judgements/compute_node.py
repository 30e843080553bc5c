"""Compare the card of Slurm's compute node with the card that the plan assumes."""

from __future__ import annotations

from collections.abc import Iterator

from remote.protocol.card import CardFacts
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Severity
from remote.protocol.machine import Gpu


def judge_node_card(facts: CardFacts, planned: Gpu | None) -> Iterator[Finding]:
    """Yield an error if the compute capabilities of the node's card and of the plan's card differ.

    The login node cannot query the card of a compute node. The plan therefore uses the card in the host file.
    """
    if facts.capability is None or (planned is not None and planned.capability == facts.capability):
        return
    actual = ".".join(map(str, facts.capability))
    expected = f"the plan is for {planned.name}" if planned is not None else "the plan is for a host without a card"
    message = f"the compute node has a {facts.device} (compute capability {actual}), but {expected}"
    hint = f"write `card: {actual}` into the host's file"
    yield Finding("node-card", Severity.ERROR, message, "card", hint, ExitCode.GPU)
