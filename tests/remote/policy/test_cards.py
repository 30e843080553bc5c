"""What a host file declares about its cards."""

from __future__ import annotations

import pytest

from remote.policy.cards import requires_card
from remote.protocol.machine import NO_DRIVER, Driver, Gpu

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
    driver = Driver("550.90") if REAL in seen else Driver(error=NO_DRIVER)
    assert requires_card(driver, seen, gpus=gpus, card=card, elsewhere=elsewhere) is promised


HANGS = Driver(error="nvidia-smi does not answer: the driver or a GPU hangs")


@pytest.mark.parametrize(
    ("driver", "gpus", "elsewhere", "required"),
    [
        (HANGS, None, False, True),
        (Driver("550.90", error="Unable to determine the device handle for GPU0: Unknown Error"), None, False, True),
        (HANGS, (), False, False),
        (HANGS, None, True, False),
        (Driver(error=NO_DRIVER), None, False, False),
        (Driver("550.90"), None, False, False),
    ],
)
def test_SE_15_a_driver_that_does_not_report_its_cards_requires_one_unless_the_cpu_was_asked_for(
    driver: Driver, gpus: tuple[int, ...] | None, elsewhere: bool, required: bool
) -> None:
    assert requires_card(driver, (), gpus=gpus, card=None, elsewhere=elsewhere) is required
