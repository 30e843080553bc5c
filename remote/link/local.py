"""This machine as a host: the same agent over a pipe."""

from __future__ import annotations

from remote.link.agent import AgentHost
from remote.link.wire import ProcessStarter


def local_host(workdir: str = "~/halfstep", *, keep: bool = True, name: str = "local") -> AgentHost:
    """This machine, through an agent whose workdir is `workdir`."""
    return AgentHost(name, ProcessStarter(), workdir=workdir, keep=keep)
