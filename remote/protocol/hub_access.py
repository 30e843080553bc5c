"""Facts about the host's access to the model hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HubFacts:
    """`cached`: the host has that revision. `token`: where one was found (a variable's name or a file), never itself.

    `fault` and `message`: what the hub, or the way there, said; empty where the model may be had.
    """

    cached: bool
    cache: str
    token: str = ""
    fault: str = ""
    message: str = ""
