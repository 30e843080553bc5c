"""The hosts that train one run together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """One host's part in the rendezvous of a job.

    `endpoint` is the address and port of torchrun's store, which runs on the first host; `address` and `interface` are
    this host's own; `job` names the rendezvous.
    """

    job: str
    endpoint: str
    is_first: bool
    address: str
    interface: str


@dataclass(frozen=True)
class Group:
    """The hosts, the digest of the work of all of them, and the number of their processes together.

    `node` is set when a job is about to be started.
    """

    hosts: tuple[str, ...]
    work: str
    processes: int
    node: Node | None = None
