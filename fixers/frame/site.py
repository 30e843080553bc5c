"""The input of a fixer: the project's files, and the target host and card if they are known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from fixers.frame.change import Plan
from remote.host import Host
from remote.protocol.dataclass import dataclass, field
from remote.protocol.layout import ProjectLayout
from remote.protocol.machine import Gpu
from remote.protocol.survey import Survey


class Tree(Protocol):
    """Read-only project files by POSIX path."""

    def paths(self) -> Iterable[str]: ...

    def read(self, path: str) -> bytes: ...


@dataclass(frozen=True)
class Site:
    """The project and its target.

    `gpu` is None if no card is known; card-specific fixers then do nothing. `host`, `survey` and `project` (its
    location on the host) are None if only a local tree is fixed (`pipeline fix PATH`). `environment` holds the
    variables of the training command: the host's `env:`, updated by the `env:` of the run. `secrets` holds the values
    of configured secrets that exist locally. halfstep uses them for hub requests and never stores them. `python` is the
    configured interpreter, or empty if none is configured. `settings` holds the config's `fixers:` entries by fixer
    name; `config` is the whole run config as JSON values.
    """

    tree: Tree
    gpu: Gpu | None = None
    host: Host | None = None
    survey: Survey | None = None
    project: ProjectLayout | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    settings: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)


class Fixer(Protocol):
    """A setup fixer: a module whose docstring is its rule page.

    `safety` is "safe" or "unsafe".
    `plan` changes nothing and is deterministic.
    """

    name: str
    safety: str

    def plan(self, site: Site) -> Plan: ...
