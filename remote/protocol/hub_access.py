"""Facts about the host's access to the model hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HubFacts:
    """`cached`: the host has that revision. `token`: where one was found (a variable's name or a file), not its value.

    `fault` and `message`: the error of the hub or the network; empty if the model is available.
    """

    cached: bool
    cache: str
    token: str = ""
    fault: str = ""
    message: str = ""
