"""The address of a configured host and its interpreter. Pure."""

from __future__ import annotations

import importlib.util
import sys

from pipeline.config.hosts import LoadedHost
from pipeline.config.model import HostConfig
from remote.link.address import LOCAL, Address


def address_of(host: LoadedHost) -> Address:
    """Return the host's address."""
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
        destination=host.argument,
    )


def python_of(config: HostConfig) -> str:
    """Return the interpreter: the host file's, or for `local` the current one if it has torch.

    Empty: the project's own, else the one on PATH.
    """
    current = sys.executable if config.host == LOCAL and importlib.util.find_spec("torch") is not None else ""
    return config.python or current
