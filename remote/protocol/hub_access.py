"""Facts about the host's access to the model hub."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HubFacts:
    """The access to one model. `cached`: the host has that revision. `token`: the variable or file with a token.

    `fault` and `message`: the error of the hub or the network, or "" if the model is available.
    """

    cached: bool
    cache: str
    token: str = ""
    fault: str = ""
    message: str = ""
