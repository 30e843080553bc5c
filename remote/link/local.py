"""The local machine as a host: an agent over pipes."""

from __future__ import annotations

from remote.link.agent import AgentHost
from remote.link.streams import LocalStarter


def local_host(workdir: str = "~/halfstep", *, keep: bool = True, name: str = "local") -> AgentHost:
    return AgentHost(name, LocalStarter(), workdir=workdir, keep=keep)
