"""Check that the host has room for an upload before its first byte is sent."""

from __future__ import annotations

from remote.errors import DiskFull
from remote.host import Host
from remote.protocol.quantities import size
from remote.protocol.shell import on_host
from remote.protocol.tree import SPARE_BYTES


def require_room(host: Host, need_bytes: int, free_bytes: int | None) -> None:
    """Raise DiskFull if the host has no room for the upload. The host checks again while it receives the data."""
    if free_bytes is None or not need_bytes or need_bytes + SPARE_BYTES <= free_bytes:
        return
    raise DiskFull(
        f"no space left in {host.workdir} on {host.name}: need {size(need_bytes)} and {size(SPARE_BYTES)} in reserve, "
        f"free {size(free_bytes)}; nothing was sent",
        where=host.workdir,
        hint=on_host("df -h {}", host.workdir),
    )
