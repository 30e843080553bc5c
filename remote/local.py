"""This machine as a host: the same agent over a pipe."""

from __future__ import annotations

from remote.agent import AgentHost
from remote.bootstrap import bootstrap_argv
from remote.wire import ProcessWire, Wire


def local_host(workdir: str = "~/halfstep", *, keep: bool = True, name: str = "local") -> AgentHost:
    """This machine, through an agent whose workdir is `workdir`."""

    def open_wire(nonce: str, sha256: str, keep: bool) -> Wire:
        return ProcessWire(bootstrap_argv(nonce, sha256, workdir, keep=keep))

    return AgentHost(name, open_wire, keep=keep)
