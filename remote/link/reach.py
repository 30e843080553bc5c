"""A Host for an Address: this machine, one behind SSH, or a container on either."""

from __future__ import annotations

import importlib
from typing import cast

from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.ask import Prompter
from remote.link.container import ContainerStarter
from remote.link.wire import ProcessStarter, Starter

# By name: paramiko takes longer to import than everything else of ours, and only SSH needs it.
SSH = ("remote.link.ssh.starter", "ssh_starter")


def open_host(address: Address, *, keep: bool = True, ask: Prompter | None = None) -> AgentHost:
    """The host; nothing is sent until the first call. `keep` False leaves no payload of ours behind there.

    A host with `scheduler: slurm` is its login node: jobs are submitted from there. `ask` answers questions about
    unknown host keys, passphrases and passwords; without it each of them is an error that says what to do.
    """
    starter: Starter = ProcessStarter() if address.is_local else _ssh(address, ask)
    if address.container:
        starter = ContainerStarter(starter, address.container, address.workdir)
    python = address.python if address.python.startswith(("/", "~/")) else ""
    return AgentHost(address.name, starter, workdir=address.workdir, keep=keep, python=python)


def _ssh(address: Address, ask: Prompter | None) -> Starter:
    module, name = SSH
    return cast(Starter, getattr(importlib.import_module(module), name)(address, ask))
