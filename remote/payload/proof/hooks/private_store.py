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
_OPENED: Dict[str, Any] = {}


def keep_stores_private() -> None:
    """Patch the function of the imported torch that creates the store for `env://` and `tcp://` addresses."""
    module = sys.modules.get("torch.distributed.rendezvous")
    if os.environ.get(STORE) and module is not None and hasattr(module, "FileStore"):
        replace(module, "_create_c10d_store", _create_in_file(module.FileStore))


def runs_on_one_host() -> bool:
    """Return True if a launcher started this process, and all of its other processes on this host."""
    count = os.environ.get("WORLD_SIZE", "")
    # DeepSpeed's launcher calls the number LOCAL_SIZE.
    return count != "" and count == (os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE"))


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
    if not runs_on_one_host() or (hostname, str(port)) != announced:
        return None
    return f"{os.environ[STORE]}-{port}-{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}"
