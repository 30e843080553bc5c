"""Make the stores of process groups listen on the address that the processes use, not on every interface.

A TCPStore has no password. torch binds it to all interfaces, regardless of its address argument (torch 2.13).
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
import sys
from typing import Any, Callable, Dict, Optional

from .patching import replace

ARGUMENTS = (
    "host_name",
    "port",
    "world_size",
    "is_master",
    "timeout",
    "wait_for_workers",
    "multi_tenant",
    "master_listen_fd",
    "use_libuv",
)
"""The arguments of TCPStore, in their order since torch 1.8."""
LOOPBACK = {"localhost": "127.0.0.1"}


def bind_stores() -> None:
    """Patch TCPStore in the imported torch. A torch that was built without TCPStore is not changed."""
    store = getattr(sys.modules.get("torch._C._distributed_c10d"), "TCPStore", None)
    if store is not None and "master_listen_fd" in (store.__init__.__doc__ or ""):
        replace(store, "__init__", _bind_server)


def _bind_server(original: Callable[..., None]) -> Callable[..., None]:
    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        given = {**dict(zip(ARGUMENTS, args)), **kwargs}
        bound = _bound_socket(given)
        if bound is None:
            original(self, *args, **kwargs)
            return
        with bound:
            _serve(original, self, given, bound)

    return build


def _bound_socket(given: Dict[str, Any]) -> Optional[socket.socket]:
    """Return a socket for the store's server, or None if this process runs no server or the host lacks the address.

    For a host name, torch creates the socket itself, because other hosts may resolve the name to another address.
    """
    if not given.get("is_master") or given.get("master_listen_fd") is not None:
        return None
    try:
        name = given["host_name"]
        address = ipaddress.ip_address(LOOPBACK.get(name, name))
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        bound = socket.socket(family, socket.SOCK_STREAM)
    except (KeyError, ValueError, OSError):
        return None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((str(address), int(given["port"])))
    except (OSError, TypeError, ValueError, OverflowError):
        # If a store of this process already listens on the port, torch shares that store.
        bound.close()
        return None
    return bound


def _serve(original: Callable[..., None], store: Any, given: Dict[str, Any], bound: socket.socket) -> None:
    """Build the store on the socket. The store closes the descriptor that it gets, unless its constructor fails."""
    descriptor = os.dup(bound.fileno())
    given = {**given, "port": bound.getsockname()[1], "master_listen_fd": descriptor}
    try:
        original(store, **given)
    except RuntimeError as error:
        if "listen fd" not in str(error) or not given.get("use_libuv", True):
            raise
        # torch 2.4 accepts a descriptor only without libuv.
        with contextlib.suppress(OSError):
            os.close(descriptor)
        original(store, **{**given, "use_libuv": False, "master_listen_fd": os.dup(bound.fileno())})
