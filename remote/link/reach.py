"""Return a Host for an Address: this machine, an SSH host, or a container on this machine or on an SSH host."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import cast

from remote.link.address import Address
from remote.link.agent import AgentHost
from remote.link.container import ContainerStarter
from remote.link.prompter import Prompter
from remote.link.ssh.route import ResolvedHop
from remote.link.streams import LocalStarter, Starter

# The module of SSH hosts is imported by name, because it imports fabric, which is slow, and only SSH hosts need it.
SSH = ("remote.link.ssh.starter", "ssh_starter")


def open_host(
    address: Address,
    *,
    keep: bool = True,
    prompter: Prompter | None = None,
    confirm_local: Callable[[ResolvedHop], None] | None = None,
) -> AgentHost:
    """Return the host of `address`, and begin to connect to it. The first call raises the errors of the connection.

    If `keep` is False, no payload is stored on the host. With `scheduler: slurm`, the host is the login node.
    `prompter` asks the user about unknown host keys, passphrases and passwords. If `prompter` is None, each question
    becomes an error with a hint. `confirm_local` is called before the login if an SSH connection leads to this machine,
    with the first hop; it raises an exception to refuse.
    """
    starter: Starter = LocalStarter() if address.is_local else _ssh(address, prompter, confirm_local)
    if address.container:
        starter = ContainerStarter(starter, address.container, address.workdir, address.trusts_owners)
    image = address.container.image if address.container else ""
    return AgentHost(
        address.name,
        starter,
        workdir=address.workdir,
        keep=keep,
        python=address.python_outside_project,
        image=image,
        trusts_owners=address.trusts_owners,
    )


def _ssh(address: Address, prompter: Prompter | None, confirm_local: Callable[[ResolvedHop], None] | None) -> Starter:
    module, name = SSH
    return cast(Starter, getattr(importlib.import_module(module), name)(address, prompter, confirm_local))
