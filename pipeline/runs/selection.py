"""Load the config and the host that the user selected on the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from pipeline.config.document import BadConfig
from pipeline.config.find import find_config
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.config.load import LoadedConfig, load_file
from pipeline.config.overrides import host_overrides, parse_override, run_overrides
from pipeline.messages.errors import findings_of
from pipeline.messages.hints import override_arguments, selection_arguments
from pipeline.runs.grid import Point
from pipeline.runs.secrets import secret_values
from remote.errors import BadUsage, HalfstepError
from remote.protocol.dataclass import dataclass, field
from remote.protocol.hidden import hide

T = TypeVar("T")
PROJECT = ("project",)
DATA_PATH = ("data", "path")
SECRETS = ("secrets",)
BUILT_IN = ("train.", "lora.")
"""Config sections that a `command:` can read only through placeholders."""
STEPS = "train.max_steps"
"""The exception among the settings of BUILT_IN: every command receives this setting as HALFSTEP_STEPS."""


@dataclass(frozen=True)
class Selection:
    """A config and a host.

    `given` are the command-line words that selected both, for commands in hints. `project_typed`, `data_typed` and
    `secrets_typed` are True if the project, the data folder or the secrets were set on the command line and therefore
    need no confirmation. `together` are the hosts of a command that names several. `agreed` are the uses of typed
    options that may be stored once the host is reached, see `keep_agreed`; copies of the selection share them.
    """

    loaded: LoadedConfig
    host: LoadedHost
    given: tuple[str, ...] = ()
    project_typed: bool = False
    data_typed: bool = False
    secrets_typed: bool = False
    together: tuple[LoadedHost, ...] = ()
    agreed: set[tuple[str, ...]] = field(default_factory=set, compare=False)

    @property
    def title(self) -> str:
        """Return 'tiny on titan', or 'tiny (train.seed=1) on titan' if the command has several values."""
        values = f" ({', '.join(self.loaded.varied)})" if self.loaded.varied else ""
        return f"{self.loaded.name}{values} on {self.host.name}"


def load_selection(host: str, config: str, overrides: Sequence[str], cwd: Path, *, card: str = "") -> Selection:
    """Load the config and the host.

    `--set host.KEY=...` overrides settings of the host; any other `--set` overrides settings of the config. `card`
    overrides the card in the host's file. `gpus:` of the config overrides `gpus:` of the host. Raises BadUsage,
    BadConfig.
    """
    path = _result_or_error(lambda: find_config(config, cwd))
    found = None if isinstance(path, HalfstepError) else path
    loaded = (
        path
        if isinstance(path, HalfstepError)
        else _result_or_error(lambda: load_file(path, cwd, run_overrides(overrides)))
    )
    reached = _result_or_error(lambda: load_host(host, cwd, host_overrides(overrides), card=card, config_path=found))
    if isinstance(loaded, HalfstepError) or isinstance(reached, HalfstepError):
        raise _merged(*(one for one in (loaded, reached) if isinstance(one, HalfstepError)))
    _refuse_unread(loaded, run_overrides(overrides))
    if loaded.config.gpus is not None:
        reached = replace(reached, config=reached.config.model_copy(update={"gpus": loaded.config.gpus}))
    given = selection_arguments(host, config, override_arguments(overrides, card))
    project_typed, data_typed, secrets_typed = (is_set(key, overrides) for key in (PROJECT, DATA_PATH, SECRETS))
    hide(secret_values(reached.config, loaded.config).values())
    return Selection(loaded, reached, given, project_typed, data_typed, secrets_typed)


def load_points(host: str, points: Sequence[Point], cwd: Path) -> tuple[Selection, ...]:
    """Return one selection per combination of config and values. Raises BadUsage or BadConfig with all problems."""
    found = [_result_or_error(partial(_varied_selection, host, point, cwd)) for point in points]
    if errors := [one for one in found if isinstance(one, HalfstepError)]:
        raise _merged(*errors)
    return tuple(one for one in found if isinstance(one, Selection))


def _varied_selection(host: str, point: Point, cwd: Path) -> Selection:
    one = load_selection(host, point.config, point.overrides, cwd)
    return replace(one, loaded=replace(one.loaded, varied=point.varied))


def _refuse_unread(loaded: LoadedConfig, overrides: Sequence[str]) -> None:
    """Raise BadUsage for an override of a setting of the built-in trainer that the config's command does not read."""
    if loaded.config.command is None:
        return
    keys = (override.partition("=")[0].strip() for override in overrides)
    read = (*loaded.named, STEPS)
    if key := next((key for key in keys if key.startswith(BUILT_IN) and key not in read), None):
        raise BadUsage(
            f"{key} is a setting of the built-in trainer, and the `command:` of {loaded.name} does not contain it: "
            "the override would change nothing",
            where="--set",
            hint=f"pass it to your script in {loaded.path.name}:   command: python train.py --value {{{key}}}",
        )


def hosts_in(typed: str) -> tuple[str, ...]:
    """Return the names in `--host a,b`.

    An ssh command (several words before the first comma) is not split at commas. A path is split, because a file of the
    project could have the name of several hosts.
    """
    is_command = len(typed.partition(",")[0].split()) > 1
    return tuple(name.strip() for name in ([typed] if is_command else typed.split(",")))


def load_selections(hosts: Sequence[str], config: str, overrides: Sequence[str], cwd: Path) -> tuple[Selection, ...]:
    """Load the config with each host. `given` of each selection names all hosts. Raises BadUsage, BadConfig."""
    if "" in hosts or len(set(hosts)) < len(hosts):
        raise BadUsage(f"--host {','.join(hosts)} contains a duplicate or empty name", where="--host")
    found = [load_selection(host, config, overrides, cwd) for host in hosts]
    given = selection_arguments(",".join(hosts), config, override_arguments(overrides))
    together = tuple(one.host for one in found)
    return tuple(replace(one, given=given, together=together) for one in found)


def _result_or_error(load: Callable[[], T]) -> T | HalfstepError:
    try:
        return load()
    except HalfstepError as error:
        return error


def _merged(first: HalfstepError, *more: HalfstepError) -> HalfstepError:
    """Return one error with the findings of all errors."""
    if not more:
        return first
    findings = tuple(dict.fromkeys(finding for error in (first, *more) for finding in findings_of(error)))
    return BadConfig(f"{len(findings)} problems", findings=findings)


def is_set(key: tuple[str, ...], overrides: Sequence[str]) -> bool:
    """Return True if the key is set on the command line."""
    return any(parse_override(override).covers(key) for override in run_overrides(overrides))
