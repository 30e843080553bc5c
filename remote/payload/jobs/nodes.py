"""`payload.pyz nodes COUNT COMMAND...`: the first process of a training job on several nodes of Slurm.

It starts `payload.pyz node ENDPOINT COMMAND...` on each node with srun, and returns the exit status of srun.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import List

from remote.payload.probes.network import address_of_route
from remote.payload.processes.launch import free_port

SCONTROL_S = 30.0


def main(count: str, *command: str) -> int:
    """Run the command on `count` nodes and return the exit status of srun.

    A SIGTERM is not passed to srun, which would kill the command before it can save a checkpoint. Instead, a line on
    stdin requests the end of the command on each node.
    """
    endpoint = f"{own_address()}:{free_port()}"
    argv = [*srun_argv(count), sys.executable, "-B", os.path.abspath(sys.argv[0]), "node", endpoint, *command]
    srun = subprocess.Popen(argv, stdin=subprocess.PIPE)
    assert srun.stdin is not None
    descriptor = srun.stdin.fileno()

    def forward(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, b"stop\n")

    signal.signal(signal.SIGTERM, forward)
    status = srun.wait()
    return status if status >= 0 else 128 - status


def srun_argv(count: str) -> List[str]:
    """Return the srun command that starts one task per node of the job, with all cards and processors of the node."""
    cpus = os.environ.get("SLURM_CPUS_PER_TASK", "")
    # Since Slurm 22.05, srun does not inherit the number of processors from the job, and binds a task to one processor.
    given = (f"--cpus-per-task={cpus}",) if cpus else ()
    one_each = (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1")
    return ["srun", "--kill-on-bad-exit=1", "--unbuffered", "--cpu-bind=none", *one_each, *given]


def own_address() -> str:
    """Return the address of this node according to Slurm's configuration. The other nodes can reach this address."""
    node = os.environ.get("SLURMD_NODENAME", "")
    done = subprocess.run(
        ["scontrol", "show", "node", node, "--oneliner"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SCONTROL_S,
        check=False,
    )
    words = done.stdout.decode("utf-8", "replace").split()
    name = next((word.partition("=")[2] for word in words if word.startswith("NodeAddr=")), node)
    return numeric(name)


def numeric(name: str) -> str:
    """Return the IPv4 address for a node's host name or address.

    On the node itself, the name may resolve to a loopback address, which the other nodes cannot use.
    """
    try:
        address = socket.gethostbyname(name)
    except OSError:
        return address_of_route()
    return address_of_route() if address.startswith("127.") and address != name else address
