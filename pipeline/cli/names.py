"""Names for shell completion: one function for each kind of name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fixers.registry import FIXERS
from pipeline.config.find import find_project, known_hosts, list_configs
from pipeline.config.schema import keys_of
from pipeline.pages.find import all_names
from pipeline.pages.manual import manual_pages
from pipeline.pages.stages import STAGES
from pipeline.records.layout import Records
from pipeline.records.runs import list_notes
from remote.policy.cards import CARDS


def hosts() -> Iterable[str]:
    """Host files and the aliases of ~/.ssh/config."""
    return known_hosts(Path.cwd())


def configs() -> Iterable[str]:
    """Config files of the project and shipped ones."""
    return list_configs(Path.cwd())


def cards() -> Iterable[str]:
    """Cards whose compute capability is known."""
    return CARDS


def runs() -> Iterable[str]:
    """Runs of this project."""
    return [note.name for note in list_notes(Records(find_project(Path.cwd())))]


def stages() -> Iterable[str]:
    """The six stages."""
    return STAGES


def fixers() -> Iterable[str]:
    """Every fixer."""
    return FIXERS


def pages() -> Iterable[str]:
    """Every name that `pipeline explain` has a page for."""
    return {name for _, name in all_names()}


def manual() -> Iterable[str]:
    """Every page of `pipeline docs`."""
    return manual_pages()


def keys() -> Iterable[str]:
    """Every key that `--set` takes, with the `=` that follows it."""
    names = (*keys_of("config"), *(f"fixers.{name}" for name in FIXERS), *(f"host.{key}" for key in keys_of("host")))
    return [f"{name}=" for name in names]


def host_actions() -> Iterable[str]:
    """What `pipeline hosts` takes as its first word."""
    return ("check",)
