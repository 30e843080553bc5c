"""`payload.pyz node ENDPOINT COMMAND...`: run the command on one node of a Slurm job.

Started by `payload.pyz nodes`.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
from typing import Dict, List, Sequence

from remote.payload.probes.network import address_towards, interface_of

TICK_S = 0.5
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def main(endpoint: str, *command: str) -> int:
    """Run the command with the rendezvous address filled in, and return its exit status.

    A line on stdin, the end of stdin, or the end of the parent process ends the command with SIGTERM.
    """
    address = address_towards(*endpoint.rsplit(":", 1))
    placeholders = {
        "{endpoint}": endpoint,
        "{local_address}": address,
        "{is_host}": str(int(os.environ.get("SLURM_NODEID", "0") == "0")),
    }
    # Slurm sends SIGTERM to every process of the job, so the command runs in its own session.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    child = subprocess.Popen(filled(command, placeholders), env=environment(address), stdin=subprocess.DEVNULL)
    end_requested = False
    while child.poll() is None:
        if end_requested:
            child.wait()
        elif select.select([0], [], [], TICK_S)[0]:
            os.read(0, 64)
            child.terminate()
            end_requested = True
    status = child.returncode
    return status if status >= 0 else 128 - status


def filled(command: Sequence[str], placeholders: Dict[str, str]) -> List[str]:
    """Return the command with every word that is one of the `placeholders` replaced by its value.

    `{is_host}` is also replaced within an option of the rendezvous. Braces in other words are kept.
    """
    store = "is_host={is_host}"
    given = (
        word.replace("{is_host}", placeholders["{is_host}"]) if word.startswith(store) else word for word in command
    )
    return [placeholders.get(word, word) for word in given]


def environment(address: str) -> Dict[str, str]:
    """Return the environment of the command. Its variables select the network interface that has `address`."""
    interface = interface_of(address)
    interfaces = dict.fromkeys(INTERFACES, interface) if interface else {}
    return {**interfaces, **os.environ, "HALFSTEP_SHARED_RUN": "1"}
