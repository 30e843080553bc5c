"""Load the config and the host of a verb, and start connecting before the verb's code is imported."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipeline.cli.verb import Connects
from pipeline.config.find import is_shipped_config, is_shipped_host, list_configs, list_hosts
from pipeline.hosts.pending import PendingHost
from pipeline.loading import LazyModule, uninterrupted
from pipeline.messages.hints import option_value, overrides_in
from pipeline.runs.grid import combinations
from pipeline.runs.selection import Selection, hosts_in, load_points, load_selections
from remote.errors import BadUsage
from remote.link.address import LOCAL
from remote.link.ssh.starter import load_connection
from remote.project.identity import project_of
from remote.protocol.shell import command_line, is_plain, shell_command

# The connection begins before the imports that it does not need.
if TYPE_CHECKING:
    from pipeline.records import find_run
    from pipeline.runs import resumed
else:
    find_run = LazyModule("pipeline.records.find_run")
    resumed = LazyModule("pipeline.runs.resumed")


def selected_by_run(run: str, host: str, config: str, overrides: tuple[str, ...]) -> tuple[str, str, tuple[str, ...]]:
    """Return host, config and overrides.

    If only `--resume` was typed, read them from the record of the run `run`. Raises BadUsage if another user wrote the
    record: its settings could name files or secrets, and would be trusted as if the user had typed them.
    """
    if host or config:
        return host, config, overrides
    note, _ = find_run.named_run(run, Path.cwd())
    if not note.own:
        raise BadUsage(
            f"the record of {note.name} was not written by you, so its host, config and settings are not used",
            where="--resume",
            hint=shell_command("pipeline run --host HOST --config NAME --resume {}", note.name),
        )
    if note.evaluates:
        raise BadUsage(f"{note.name} is not a training run", where="--resume", hint=note.resume_command)
    recorded = [following for word, following in pairwise(overrides_in(note.given)) if word == "--set"]
    host, config = (option_value(note.given, name) for name in ("--host", "--config"))
    return host or note.host, config or note.config, (*recorded, *overrides)


def hint_for_missing(verb: str, option: str, words: Sequence[str]) -> str:
    """Return the command line `words` with the missing `--host` or `--config`, and the names that the project has."""
    listed, is_shipped = (list_hosts, is_shipped_host) if option == "--host" else (list_configs, is_shipped_config)
    own = [known for known, path in listed(Path.cwd()).items() if not is_shipped(path) and is_plain(known)]
    choices = f"of this project: {', '.join(own)}" if own else shell_command("pipeline {} lists them", f"{option[2:]}s")
    after = words[words.index(verb) + 1 :] if verb in words else ()
    given = [word for word in after if word and word not in (option, f"{option}=")]  # a typed option without a value
    begun = ["pipeline", verb, option, "NAME"]
    return f"{command_line([*begun, *given]) or command_line(begun)}   ({choices})"


def _given(name: str, option: str) -> str:
    if not name:
        context = click.get_current_context()
        hint = hint_for_missing(context.info_name or "", option, context.obj or ())
        raise BadUsage(f"Missing option '{option}'.", hint=hint)
    return name


def select_and_connect(values: dict[str, Any], connects: Connects) -> dict[str, Any]:
    """Return the verb's parameters. The selection and a pending connection replace host, config and overrides.

    For several hosts, `others` contains the selections and connections of all hosts after the first. For several
    configs or values, `more` contains the selections of all runs after the first.

    Raises BadUsage, BadConfig.
    """
    rest = dict(values)
    typed = (rest.pop("host"), rest.pop("config"), rest.pop("overrides"))
    host, config, overrides = selected_by_run(rest["resume"], *typed) if rest.get("resume") else typed
    names, config_name = hosts_in(_given(host, "--host")), _given(config, "--config")
    if not connects.several:
        if len(names) > 1:
            raise BadUsage(f"--host {host} names several hosts; this command takes one", where="--host")
        return {**rest, **_connected(load_selections(names, config_name, overrides, Path.cwd()), connects, rest)}
    points = combinations(config_name, overrides, Path.cwd(), many=rest["yes"])
    if len(points) == 1:
        selections = load_selections(names, points[0].config, points[0].overrides, Path.cwd())
        if rest["resume"] and not any(typed[:2]):
            resumed.require_same_machines(rest["resume"], [one.host for one in selections], overrides, Path.cwd())
        return {**rest, **_connected(selections, connects, rest)}
    if len(names) > 1:
        raise BadUsage(
            "several hosts train one run together; give one config and one value of each key", where="--host"
        )
    if rest["resume"]:
        raise BadUsage("--resume continues one run; give one config and one value of each key", where="--resume")
    first, *more = load_points(names[0], points, Path.cwd())
    return {**rest, **_connected((first,), connects, rest), "more": more}


def _connected(selections: Sequence[Selection], connects: Connects, values: dict[str, Any]) -> dict[str, Any]:
    """Start connecting to each host."""
    project, may_prompt = project_of(selections[0].loaded.root), not values["as_json"]
    pairs = [(one, PendingHost(one.host, project, keep=connects.keep, may_prompt=may_prompt)) for one in selections]
    if any(one.host.config.host != LOCAL for one in selections):
        # The SSH handshake cannot start before this import. The verb's own code is imported during the handshake.
        with uninterrupted():
            load_connection()
    others = {"others": pairs[1:]} if connects.several else {}
    return {"selection": pairs[0][0], "pending": pairs[0][1], **others}
