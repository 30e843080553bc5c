"""The card of a compute node, compared with the one that the plan assumes."""

from __future__ import annotations

import pytest

from pipeline.judgements.compute_node import judge_node_card
from remote.protocol.card import CardFacts
from remote.protocol.exits import ExitCode
from remote.protocol.machine import Gpu

TURING = Gpu(0, "", "titan-rtx", (7, 5), 24 * 2**30, assumed=True)


@pytest.mark.parametrize(("capability", "planned"), [((7, 5), TURING), (None, TURING), (None, None)])
def test_the_planned_card_or_none_at_all_is_no_finding(capability: tuple[int, int] | None, planned: Gpu | None) -> None:
    assert list(judge_node_card(CardFacts("cuda", capability), planned)) == []


@pytest.mark.parametrize("planned", [TURING, None])
def test_another_card_is_an_error_that_names_the_capability_to_write(planned: Gpu | None) -> None:
    (finding,) = judge_node_card(CardFacts("NVIDIA A100", (8, 0)), planned)
    assert (finding.check, finding.exit_code) == ("node-card", ExitCode.GPU)
    assert "`card: 8.0`" in finding.hint
