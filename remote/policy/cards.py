"""Known cards with their compute capability and memory. They allow a plan for a card that is not available.

Source: NVIDIA's table "CUDA GPU Compute Capability" and, for retired cards, "Legacy CUDA GPU Compute Capability".
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

from remote.protocol.machine import Driver, Gpu

Capability = tuple[int, int]

CARDS: dict[str, tuple[str, Capability]] = {
    "k80": ("Tesla K80", (3, 7)),
    "m60": ("Tesla M60", (5, 2)),
    "p100": ("Tesla P100", (6, 0)),
    "p4": ("Tesla P4", (6, 1)),
    "p40": ("Tesla P40", (6, 1)),
    "gtx-1060": ("GeForce GTX 1060", (6, 1)),
    "gtx-1070": ("GeForce GTX 1070", (6, 1)),
    "gtx-1080": ("GeForce GTX 1080", (6, 1)),
    "gtx-1080-ti": ("GeForce GTX 1080 Ti", (6, 1)),
    "titan-xp": ("TITAN Xp", (6, 1)),
    "v100": ("Tesla V100", (7, 0)),
    "titan-v": ("TITAN V", (7, 0)),
    "xavier": ("Jetson AGX Xavier", (7, 2)),
    "titan-rtx": ("TITAN RTX", (7, 5)),
    "t4": ("Tesla T4", (7, 5)),
    "quadro-rtx-5000": ("Quadro RTX 5000", (7, 5)),
    "quadro-rtx-6000": ("Quadro RTX 6000", (7, 5)),
    "quadro-rtx-8000": ("Quadro RTX 8000", (7, 5)),
    "gtx-1650": ("GeForce GTX 1650", (7, 5)),
    "gtx-1660": ("GeForce GTX 1660", (7, 5)),
    "gtx-1660-ti": ("GeForce GTX 1660 Ti", (7, 5)),
    "rtx-2060": ("GeForce RTX 2060", (7, 5)),
    "rtx-2070": ("GeForce RTX 2070", (7, 5)),
    "rtx-2080": ("GeForce RTX 2080", (7, 5)),
    "rtx-2080-ti": ("GeForce RTX 2080 Ti", (7, 5)),
    "a100": ("A100", (8, 0)),
    "a30": ("A30", (8, 0)),
    "a2": ("A2", (8, 6)),
    "a10": ("A10", (8, 6)),
    "a16": ("A16", (8, 6)),
    "a40": ("A40", (8, 6)),
    "rtx-a4000": ("RTX A4000", (8, 6)),
    "rtx-a5000": ("RTX A5000", (8, 6)),
    "rtx-a6000": ("RTX A6000", (8, 6)),
    "rtx-3060": ("GeForce RTX 3060", (8, 6)),
    "rtx-3070": ("GeForce RTX 3070", (8, 6)),
    "rtx-3080": ("GeForce RTX 3080", (8, 6)),
    "rtx-3090": ("GeForce RTX 3090", (8, 6)),
    "rtx-3090-ti": ("GeForce RTX 3090 Ti", (8, 6)),
    "orin": ("Jetson AGX Orin", (8, 7)),
    "l4": ("L4", (8, 9)),
    "l40": ("L40", (8, 9)),
    "l40s": ("L40S", (8, 9)),
    "rtx-6000-ada": ("RTX 6000 Ada Generation", (8, 9)),
    "rtx-4060": ("GeForce RTX 4060", (8, 9)),
    "rtx-4070": ("GeForce RTX 4070", (8, 9)),
    "rtx-4080": ("GeForce RTX 4080", (8, 9)),
    "rtx-4090": ("GeForce RTX 4090", (8, 9)),
    "h100": ("H100", (9, 0)),
    "h200": ("H200", (9, 0)),
    "gh200": ("GH200", (9, 0)),
    "b200": ("B200", (10, 0)),
    "gb200": ("GB200", (10, 0)),
    "b300": ("B300", (10, 3)),
    "rtx-5060": ("GeForce RTX 5060", (12, 0)),
    "rtx-5070": ("GeForce RTX 5070", (12, 0)),
    "rtx-5080": ("GeForce RTX 5080", (12, 0)),
    "rtx-5090": ("GeForce RTX 5090", (12, 0)),
    "rtx-pro-6000": ("RTX PRO 6000 Blackwell", (12, 0)),
    "gb10": ("GB10", (12, 1)),
}


MEMORY_GIB = {
    3: "gtx-1060",
    4: "gtx-1650",
    6: "gtx-1660 gtx-1660-ti rtx-2060",
    8: "m60 p4 gtx-1070 gtx-1080 rtx-2070 rtx-2080 rtx-3060 rtx-3070 rtx-4060 rtx-5060",
    10: "rtx-3080",
    11: "gtx-1080-ti rtx-2080-ti",
    12: "k80 p100 titan-xp titan-v rtx-4070 rtx-5070",
    16: "v100 t4 quadro-rtx-5000 a2 a16 rtx-a4000 rtx-4080 rtx-5080",
    24: "p40 titan-rtx quadro-rtx-6000 a30 a10 rtx-a5000 rtx-3090 rtx-3090-ti l4 rtx-4090",
    32: "rtx-5090",
    40: "a100",
    48: "quadro-rtx-8000 a40 rtx-a6000 l40 l40s rtx-6000-ada",
    80: "h100",
    96: "gh200 rtx-pro-6000",
    140: "h200",
    180: "b200",
}
"""The memory of each card in GiB, from NVIDIA's data sheets. A card that is sold in several sizes has the smallest.
"""


class UnknownCard(ValueError):
    """Unknown card name. The message lists the nearest names. `near` is the first of these names, or ""."""

    def __init__(self, message: str, near: str = "") -> None:
        super().__init__(message)
        self.near = near


def parse_card(card: str | int | float) -> tuple[str, Capability]:
    """Parse `titan-rtx`, `TITAN RTX`, `Tesla T4`, `7.5` or 7.5 into a name and a capability. Raises UnknownCard."""
    if isinstance(card, bool):
        raise UnknownCard(f"{card!r} is not a card: write a name (titan-rtx) or a capability (7.5)")
    text = str(card).strip()
    number = re.fullmatch(r"(\d{1,2})(?:\.(\d))?", text) or re.fullmatch(r"sm_?(\d{1,2})(\d)", text.lower())
    if number:
        return _from_capability(text, (int(number.group(1)), int(number.group(2) or 0)))
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    short = re.sub(r"^(nvidia-)?(tesla-|geforce-)?", "", slug)
    if short in CARDS:
        return CARDS[short]
    near = difflib.get_close_matches(short, CARDS, n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ": write a name (titan-rtx) or a capability (7.5)"
    raise UnknownCard(f"{text!r} is not a known card{hint}", near[0] if near else "")


def memory_of(name: str) -> int | None:
    """Return the memory in bytes of the card with the display name `name` ('TITAN RTX'), or None if it is unknown."""
    sizes = (size for size, slugs in MEMORY_GIB.items() for slug in slugs.split() if CARDS[slug][0] == name)
    gib = next(sizes, None)
    return None if gib is None else gib * 2**30


def requires_card(
    driver: Driver, seen: Sequence[Gpu], *, gpus: Sequence[int] | None, card: object | None, elsewhere: bool = False
) -> bool:
    """Return True if it is an error that the host has no cards.

    `seen` contains the cards that were found or are assumed. Missing cards are an error in two cases: the driver fails
    to report its cards, so that training would silently use the CPU, or the host file has `gpus:` or `card:`. They are
    not an error with `gpus: []`, or if a card is assumed (`card:` without a driver). `elsewhere` is True if the host is
    a login node; `card:` then describes the machines that run the jobs.
    """
    if (gpus is not None and not gpus) or (seen and all(gpu.assumed for gpu in seen)):
        return False
    if elsewhere:
        return gpus is not None and card is None
    return driver.broken or gpus is not None or card is not None


def _from_capability(text: str, capability: Capability) -> tuple[str, Capability]:
    if not (3, 0) <= capability < (20, 0):
        raise UnknownCard(f"{text!r} is not a compute capability: 7.5 is a TITAN RTX, 8.0 an A100")
    return f"a card of capability {capability[0]}.{capability[1]}", capability
