"""What a fixer looks at: a tree of project files, and the host and card it is meant for, where they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fixers.frame.change import Plan
from remote.host import Host
from remote.protocol.layout import ProjectLayout
from remote.protocol.machine import Gpu
from remote.protocol.survey import Survey


class Tree(Protocol):
    """Project files by POSIX name; reading is the only thing that can be done with them."""

    def paths(self) -> Iterable[str]: ...

    def read(self, path: str) -> bytes: ...


@dataclass(frozen=True)
class Site:
    """One place to be fixed. `gpu` None: no card known, so nothing is rewritten for one.

    `host`, `survey` and `project` (where it lies there) are None where only a tree on the laptop is fixed
    (`pipeline fix PATH`). `environment` is what a training command gets there: the host's `env:`, then the run's.
    `secrets` are the values of those that the config names and the laptop has: for questions to the hub, and nothing
    that is kept. `settings` are the config's `fixers:` entries by fixer name; `config` the whole run config as JSON.
    """

    tree: Tree
    gpu: Gpu | None = None
    host: Host | None = None
    survey: Survey | None = None
    project: ProjectLayout | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


class Fixer(Protocol):
    """One known fault and its cure; the module's docstring is its rule page.

    `version` is raised when the same input would be rewritten differently. `safety` is "safe" or "unsafe".
    `plan` reads only, and planning twice gives the same plan.
    """

    name: str
    version: int
    safety: str

    def plan(self, site: Site) -> Plan: ...
