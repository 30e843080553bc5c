"""Keep the store of a process group in a private file if torchrun started all of its processes on this host.

A TCPStore has no password: another user of the host could replace the addresses in it, and connect in between.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Callable, Dict, Optional

from .patching import replace

STORE = "HALFSTEP_STORE"
"""The environment variable with the beginning of the paths of a job's store files."""
HOST_COUNTS = ("GROUP_WORLD_SIZE", "CROSS_SIZE")
"""The variables in which torchrun and DeepSpeed's launcher count the hosts that train together."""
_OPENED: Dict[str, Any] = {}


def keep_stores_private() -> None:
    """Patch the function of the imported torch that creates the store for `env://` and `tcp://` addresses."""
    module = sys.modules.get("torch.distributed.rendezvous")
    if os.environ.get(STORE) and module is not None and hasattr(module, "FileStore"):
        replace(module, "_create_c10d_store", _create_in_file(module.FileStore))


def spans_hosts() -> bool:
    """Return True if the launcher of this process started processes on other hosts too."""
    return any(os.environ.get(name, "1") != "1" for name in HOST_COUNTS)


def _create_in_file(file_store: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def create(hostname: str, port: int, rank: int, world_size: int, timeout: Any, *more: Any, **named: Any) -> Any:
            path = _file_of(hostname, port)
            if path is None:
                return original(hostname, port, rank, world_size, timeout, *more, **named)
            # torch deletes the file once every process has deleted its store, as at the end of a first process group.
            if path not in _OPENED:
                _OPENED[path] = file_store(path, world_size)
                _OPENED[path].set_timeout(timeout)
            return _OPENED[path]

        return create

    return wrap


def _file_of(hostname: str, port: int) -> Optional[str]:
    """Return the path of the store that torchrun announced with this address, or None for every other store.

    After a restart by torchrun, the file of the ended processes still contains their addresses.
    """
    announced = (os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT"))
    if spans_hosts() or (hostname, str(port)) != announced:
        return None
    return f"{os.environ[STORE]}-{port}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
