"""`Verb`: one row of the table of verbs, and the groups of `pipeline --help`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from remote.protocol.dataclass import dataclass

RUN, WATCH, RESULTS, SET_UP = GROUPS = ("Run", "Watch", "Results", "Set up")


@dataclass(frozen=True)
class Connects:
    """Options for the connection of a verb.

    If `keep` is set, halfstep's files may remain on the host after the verb has ended. If `several` is set, the verb
    accepts several hosts, configs or values, separated by commas; see `select_and_connect`.
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
    """The name of the verb's module in `pipeline/verbs/`, and of its function. Empty if both have the verb's name."""
    group: str = RESULTS
    """The heading under which `pipeline --help` lists the verb."""
    printed: str = "one JSON object"
    """What `--json` prints."""
    connects: Connects | None = None
    """Set for verbs whose function receives the loaded config, the host and a pending connection."""
