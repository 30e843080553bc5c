"""How a named host is reached, and which interpreter is to train there. Pure."""

from __future__ import annotations

import sys

from pipeline.config.hosts import LoadedHost
from pipeline.config.model import HostConfig
from remote.link.address import LOCAL, Address


def address_of(host: LoadedHost) -> Address:
    """How the host is reached."""
    config = host.config
    return Address(
        name=host.name,
        host=config.host,
        port=config.port,
        user=config.user,
        identity_file=config.identity_file,
        known_hosts=config.known_hosts,
        host_key=config.host_key,
        proxy_jump=config.proxy_jump,
        workdir=config.workdir,
        python=python_of(config),
        container=config.container,
        scheduler=config.scheduler,
        env=config.env,
        destination=host.argument,
    )


def python_of(config: HostConfig) -> str:
    """The interpreter that trains: the host file's, or our own on this machine; empty: the project's, else PATH's."""
    return config.python or (sys.executable if config.host == LOCAL else "")
