"""The address of a configured host and its interpreter. Pure."""

from __future__ import annotations

import importlib.util
import sys

from pipeline.config.host_model import HostConfig
from pipeline.config.hosts import LoadedHost
from remote.link.address import LOCAL, Address
from remote.link.container import Container


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
        container=container_of(config),
        scheduler=config.scheduler,
        destination=host.argument,
        known_hosts_data=host.known_hosts_data,
        keys_are_recorded=host.recorded_file is not None and host.known_hosts_data is not None,
    )


def python_of(config: HostConfig) -> str:
    """Return the interpreter that the host file names.

    For `local` without a container, the default is the current interpreter, if it has torch. An empty string means that
    the host searches for the project's virtual environment, then for `python3`.
    """
    is_current_machine = config.host == LOCAL and config.container is None
    current = sys.executable if is_current_machine and importlib.util.find_spec("torch") is not None else ""
    return config.python or current


def container_of(config: HostConfig) -> Container | None:
    """Return the container in which everything runs, or None if the host has no `container:`."""
    wanted = config.container
    if wanted is None:
        return None
    return Container(wanted.image, wanted.engine, wanted.shm_size, wanted.volumes, wanted.gpus, wanted.user)
