"""Names for shell completion: one function for each kind of name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fixers.registry import FIXERS
from pipeline.config.find import known_hosts, list_configs
from pipeline.config.schema import keys_of
from pipeline.pages.find import all_names
from pipeline.pages.manual import manual_pages
from pipeline.pages.stages import STAGES
from pipeline.records.projects import project_records
from pipeline.records.runs import list_notes
from remote.policy.cards import CARDS


def hosts() -> Iterable[str]:
    """Return the names of host files and the aliases in ~/.ssh/config."""
    return known_hosts(Path.cwd())


def configs() -> Iterable[str]:
    """Return the names of the project's configs and the configs that come with halfstep."""
    return list_configs(Path.cwd())


def cards() -> Iterable[str]:
    """Return the names of cards whose compute capability is known."""
    return CARDS


def runs() -> Iterable[str]:
    """Return the names of this project's runs."""
    return [note.name for records in project_records(Path.cwd()) for note in list_notes(records)]


def stages() -> Iterable[str]:
    """Return the names of the six stages."""
    return STAGES


def fixers() -> Iterable[str]:
    """Return the names of all fixers."""
    return FIXERS


def pages() -> Iterable[str]:
    """Return every name that `pipeline explain` accepts."""
    return {name for _, name in all_names()}


def manual() -> Iterable[str]:
    """Return the names of the pages of `pipeline docs`."""
    return manual_pages()


def keys() -> Iterable[str]:
    """Return every key that `--set` accepts, with `=` appended."""
    names = (*keys_of("config"), *(f"fixers.{name}" for name in FIXERS), *(f"host.{key}" for key in keys_of("host")))
    return [f"{name}=" for name in names]


def host_actions() -> Iterable[str]:
    """Return the actions of `pipeline hosts`."""
    return ("check",)
