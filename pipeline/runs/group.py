"""The hosts that train one run together."""

from __future__ import annotations

from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class Node:
    """The rendezvous settings of one host for a job.

    `endpoint` is the address and port of torchrun's store, which runs on the host that starts first; `address` and
    `interface` are this host's address and network interface; `job` is the id of the rendezvous.
    """

    job: str
    endpoint: str
    is_first: bool
    address: str
    interface: str


@dataclass(frozen=True)
class Group:
    """The hosts, the digest of their combined work, and the total number of their processes.

    `node` is set when a job is about to be started.
    """

    hosts: tuple[str, ...]
    work: str
    processes: int
    node: Node | None = None
