"""What a host file declares about its cards."""

from __future__ import annotations

import pytest

from remote.policy.cards import requires_card
from remote.protocol.machine import Gpu

REAL = Gpu(0, "GPU-1", "TITAN RTX", (7, 5), 2**34)
ASSUMED = Gpu(0, "assumed", "TITAN RTX", (7, 5), 0, assumed=True)


@pytest.mark.parametrize(
    ("seen", "gpus", "card", "elsewhere", "promised"),
    [
        ((), None, None, False, False),
        ((), (0,), None, False, True),
        ((), (0,), "titan-rtx", False, True),
        ((), None, "titan-rtx", False, True),
        ((ASSUMED,), (0,), "titan-rtx", False, False),
        ((ASSUMED,), None, 7.5, False, False),
        ((REAL,), (0,), "titan-rtx", False, True),
        ((), (0,), "titan-rtx", True, False),
        ((), (0,), None, True, True),
    ],
)
def test_a_named_card_is_required_unless_it_is_assumed(
    seen: tuple[Gpu, ...], gpus: tuple[int, ...] | None, card: str | float | None, elsewhere: bool, promised: bool
) -> None:
    assert requires_card(seen, gpus=gpus, card=card, elsewhere=elsewhere) is promised
