"""State what a host file would start on one of the user's machines, as phrases for a question about the file."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.config.hosts import LoadedHost
from pipeline.hosts.address import address_of
from remote.link.address import Address

LOADED = ("python", "container", "workdir")
"""The settings that decide which code an agent runs."""


def container_uses(host: LoadedHost) -> Iterator[str]:
    """Yield a phrase for the image that even `plan` starts on the user's machine, with its user and volumes, if any."""
    container = host.config.container if host.file_values.get("container") or host.recorded_file else None
    if container is not None:
        settings = [f"as user {container.user}"] if container.user else []
        settings += [f"with the volumes {', '.join(container.volumes)}"] if container.volumes else []
        yield " ".join([f"runs the image {container.image} on {address_of(host).host}", *settings])


def local_uses(host: LoadedHost) -> Iterator[str]:
    """Yield a phrase for the settings of the host file that decide which code runs on this machine, if there are any.

    A cloned project could contain the program that `python:` names, or the folder from which an agent loads its code.
    """
    # At an address of this machine, container_uses states the container.
    names = LOADED if address_of(host).is_local else [name for name in LOADED if name != "container"]
    used = [f"{name} {host.file_values[name]}" for name in names if host.file_values.get(name)]
    used = [each for each in used if each != f"workdir {Address.workdir}"]
    if used:
        yield f"uses {' and '.join(used)} on the local machine"
