"""Facts about the host's access to the model hub."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import Identifier


@dataclass(frozen=True)
class HubFacts:
    """The access to one model. `cached` is True if the host has the revision.

    `token` names the variable or file that contains a token. `fault` and `message` describe an error of the hub or the
    network; they are "" if the model is available. `withheld`: no token of the host was sent, because the config
    selects the server.
    """

    cached: bool
    cache: Identifier
    token: Identifier = ""
    fault: Identifier = ""
    message: str = ""
    withheld: bool = False
