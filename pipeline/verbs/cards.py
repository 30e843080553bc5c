"""`--card`: a card taken for granted where no host can be asked."""

from __future__ import annotations

from remote.errors import BadUsage
from remote.protocol.cards import UnknownCard, parse_card
from remote.protocol.machine import Gpu

NO_CARD = "no card was named: nothing was rewritten for one (--card titan-rtx)"


def assumed_card(card: str) -> Gpu | None:
    """The card of that name or capability; None where none was named. Raises BadUsage with the nearest names."""
    if not card:
        return None
    try:
        name, capability = parse_card(card)
    except UnknownCard as error:
        raise BadUsage(str(error), where="--card", hint="--card titan-rtx") from None
    return Gpu(0, "", name, capability, 0, assumed=True)
