"""`Verb`: one row of the table of verbs, and the groups of `pipeline --help`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import click

RUN, WATCH, RESULTS, SET_UP = GROUPS = ("Run", "Watch", "Results", "Set up")


@dataclass(frozen=True)
class Connects:
    """How a verb connects. `keep`: whether halfstep's files may stay on the host after the verb has ended.

    `several`: the verb takes several hosts, configs or values, separated by commas; see `select_and_connect`.
    """

    keep: bool
    several: bool = False


@dataclass(frozen=True)
class Verb:
    """One verb: its line in `pipeline --help`, its help, and its parameters (all but `--no-input` and `--json`)."""

    summary: str
    help: str
    params: Sequence[click.Parameter] = ()
    module: str = ""
    """The name of the module in `pipeline/verbs/` and of its function, if it differs from the name of the verb."""
    group: str = RESULTS
    """The heading under which `pipeline --help` lists the verb."""
    connects: Connects | None = None
    """Set for a verb whose function receives the loaded config and host, and a connection in progress."""
