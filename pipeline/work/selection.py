"""What the user selected on the command line, a config and a host, loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pipeline.config.document import BadConfig
from pipeline.config.find import find_config
from pipeline.config.hosts import LoadedHost, load_host
from pipeline.config.load import LoadedConfig, load_file
from pipeline.config.overrides import host_overrides, parse_override, run_overrides
from pipeline.messages.errors import findings_of
from pipeline.messages.hints import override_arguments, selection_arguments
from remote.errors import HalfstepError

T = TypeVar("T")
DATA_PATH = ("data", "path")
SECRETS = ("secrets",)


@dataclass(frozen=True)
class Selection:
    """A config and a host. `given` are the words that selected them, for hints that are typed again.

    `data_typed`, `secrets_typed`: the data folder or the secrets stood on the command line and need no confirmation.
    """

    loaded: LoadedConfig
    host: LoadedHost
    given: tuple[str, ...] = ()
    data_typed: bool = False
    secrets_typed: bool = False


def load_selection(host: str, config: str, overrides: Sequence[str], here: Path, *, card: str = "") -> Selection:
    """Config and host of those names; `--set host.KEY=...` goes to the host, everything else to the config.

    `card` is what the host is assumed to have, whatever its file says. Raises BadUsage, BadConfig.
    """
    path = _or_error(lambda: find_config(config, here))
    found = None if isinstance(path, HalfstepError) else path
    loaded = (
        path if isinstance(path, HalfstepError) else _or_error(lambda: load_file(path, here, run_overrides(overrides)))
    )
    reached = _or_error(lambda: load_host(host, here, host_overrides(overrides), card=card, beside=found))
    if isinstance(loaded, HalfstepError) or isinstance(reached, HalfstepError):
        raise _both(*(one for one in (loaded, reached) if isinstance(one, HalfstepError)))
    given = selection_arguments(host, config, override_arguments(overrides, card))
    typed = {"data_typed": is_set(DATA_PATH, overrides), "secrets_typed": is_set(SECRETS, overrides)}
    return Selection(loaded, reached, given, **typed)


def _or_error(load: Callable[[], T]) -> T | HalfstepError:
    try:
        return load()
    except HalfstepError as error:
        return error


def _both(first: HalfstepError, *more: HalfstepError) -> HalfstepError:
    """Return one error with the problems of both config and host."""
    if not more:
        return first
    findings = tuple(finding for error in (first, *more) for finding in findings_of(error))
    return BadConfig(f"{len(findings)} problems", findings=findings)


def is_set(key: tuple[str, ...], overrides: Sequence[str]) -> bool:
    """Return True if the key is set on the command line."""
    return any(parse_override(override).covers(key) for override in run_overrides(overrides))
