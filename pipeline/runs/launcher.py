"""Choose how a job's processes are started: one process, torchrun, or the project's launcher. Pure."""

from __future__ import annotations

import shlex

from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.runs.backend import backend_of
from pipeline.runs.view import View

PYTHONS = ("python", "python3")
LAUNCHERS = (
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate.commands.launch",
    "deepspeed.launcher.runner",
)
"""Modules that start training processes themselves."""
NODES = "--nnodes"
JOIN_S = 600
"""The number of seconds for which the hosts wait for each other at the start of a job."""
ON_NODES = ("-B", "{payload}", "nodes")
"""The arguments of the interpreter that start the rest of the command on each node of a Slurm job."""
RANK_LOGS = "{job_dir}/ranks"
IN_A_FILE = "store_type=file,keep_alive_interval=60"
ONE_HOST = ("--rdzv-endpoint", "{rendezvous}", "--rdzv-conf", IN_A_FILE, "--local-addr", "127.0.0.1")
"""The rendezvous of processes on a single host.

No other host or user can reach this rendezvous. Its file grows at each interval.
"""
LOOPBACK_ONLY = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""The environment that keeps the processes of a single host on its loopback interface."""
SHOWN = 60


def process_count(config: RunConfig, host: HostConfig) -> int:
    """Return the number of processes on the host: `processes:`, or one for each card of `gpus:`."""
    return config.processes or max(1, len(host.gpus or ()))


def nodes_of(view: View) -> int:
    """Return the number of Slurm nodes of a training job, or 1 without Slurm."""
    return backend_of(view.host.config, view.config).nodes


def torchrun(python: str, view: View, words: tuple[str, ...], nodes: int = 1) -> tuple[str, ...]:
    """Return the argv of a torchrun that starts the host's processes.

    `words` are the script and its arguments. With several nodes, torchrun is started on each node, where the
    placeholders of the rendezvous are filled in. Each line of output begins with the rank that printed it. If one
    process fails, torchrun ends the other processes, and restarts all of them up to `restarts` times.
    """
    flags = (
        *("--nproc-per-node", str(process_count(view.config, view.host.config))),
        *("--max-restarts", str(view.config.restarts)),
        *("--rdzv-backend", "c10d"),
        *_rendezvous(view, nodes),
        *("--tee", "3", "--log-dir", RANK_LOGS),
    )
    start = (python, *ON_NODES, str(nodes)) if nodes > 1 else ()
    return (*start, python, "-m", "torch.distributed.run", *flags, *words)


def _rendezvous(view: View, nodes: int) -> tuple[str, ...]:
    group, node = view.group, view.group.node if view.group is not None else None
    if group is not None and node is not None:
        among = _among(len(group.hosts), str(int(node.is_first)), node.endpoint, node.address)
        return (*among, "--rdzv-id", node.job)
    return _among(nodes, "{is_host}", "{endpoint}", "{local_address}") if nodes > 1 else ONE_HOST


def _among(count: int, is_host: str, endpoint: str, address: str) -> tuple[str, ...]:
    store = f"is_host={is_host},join_timeout={JOIN_S},read_timeout={JOIN_S}"
    return (NODES, str(count), "--rdzv-conf", store, "--rdzv-endpoint", endpoint, "--local-addr", address)


def on_one_host(launcher: tuple[str, ...]) -> tuple[str, ...]:
    """Return torchrun without the rendezvous with other hosts. Other launchers are returned unchanged."""
    if NODES not in launcher:
        return launcher
    begin = len(ON_NODES) + 2 if launcher[1 : len(ON_NODES) + 1] == ON_NODES else 0
    return (*launcher[begin : launcher.index(NODES)], *ONE_HOST, *launcher[launcher.index("--tee") :])


def script_of(command: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the script (or `-m` and a module) of a `python` command with its arguments, for torchrun.

    Returns None if the command starts its processes itself, or if torchrun cannot start the command.
    """
    if command[0] not in PYTHONS:
        return None
    # `-u` is removed because torchrun itself starts its processes with `python -u`.
    words = command[1:][1:] if command[1:2] == ("-u",) else command[1:]
    if words[:1] == ("-m",):
        return words if len(words) > 1 and words[1] not in LAUNCHERS else None
    return words if words and not words[0].startswith("-") else None


def describe_processes(view: View) -> str:
    """Return a line that explains how several processes of the command are started, or "" for one process."""
    config = view.config
    count = process_count(config, view.host.config)
    if config.command is None or (count == 1 and nodes_of(view) == 1):
        return ""
    nodes = nodes_of(view)
    each = f" on each of {nodes} nodes" if nodes > 1 else ""
    why = f"processes: {count}" if config.processes else f"{count} cards in gpus:"
    if script_of(config.command) is not None:
        if count == 1:
            return f"torchrun starts the command{each} (nodes: {nodes})"
        return f"torchrun starts {count} processes of the command{each} ({why}; processes: 1 starts a single process)"
    command = shlex.join(config.command)
    shown = command if len(command) <= SHOWN else f"{command[:SHOWN]}..."
    return f"{shown} starts its own processes: {why} does not change their number"
