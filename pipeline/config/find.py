"""Which file a name means: the project's own configs/ comes before the shipped one; a path is a path."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.shipped import shipped_configs
from remote.errors import BadUsage
from remote.link.address import LOCAL
from remote.link.ssh.aliases import is_alias, list_aliases

SUFFIXES = (".yaml", ".yml")


def is_path(name: str) -> bool:
    """The user wrote a path, not a name."""
    return "/" in name or name.endswith(SUFFIXES)


def find_config(name: str, here: Path) -> Path:
    """The file of a run's config. Raises BadUsage naming the nearest one."""
    path = _file_of(name, here, config_folders(here))
    if path is not None:
        return path
    near = difflib.get_close_matches(name, list_configs(here), n=1)
    raise BadUsage(
        f"there is no config {name!r} in {_places(here)}",
        where="--config",
        hint="pipeline configs",
        instead=(name, near[0]) if near else None,
    )


@dataclass(frozen=True)
class HostSource:
    """Where the settings of a host come from: `path` is its file; None for an alias, an address or `local`.

    `shadows`: the file is the project's and ~/.ssh/config has an alias of the same name. `passed_over` is the file that
    comes with halfstep and is not used, because the alias of the same name wins.
    """

    path: Path | None = None
    shadows: bool = False
    passed_over: Path | None = None


def find_host(name: str, here: Path, beside: Path | None = None) -> HostSource:
    """A file of the project comes first, then an alias of ~/.ssh/config, then a file that comes with halfstep.

    `beside` is the file of a run's config: the hosts of its folder come before those of `here`, unless it is a
    shipped one.
    """
    with_it = [beside.parent] if beside is not None and beside.parent != shipped_configs() else []
    path = _file_of(name, here, [folder / "hosts" for folder in (*with_it, *config_folders(here))])
    if path is None or is_path(name) or name == LOCAL or not is_alias(name):
        return HostSource(path)
    return HostSource(None, passed_over=path) if is_shipped_host(path) else HostSource(path, shadows=True)


def is_shipped_host(path: Path) -> bool:
    """Whether a host's file comes with halfstep."""
    return path.parent == shipped_configs() / "hosts"


def _file_of(name: str, here: Path, folders: Iterable[Path]) -> Path | None:
    """The path that was written, or the first file of that name."""
    if is_path(name):
        return here / Path(name).expanduser()
    choices = (folder / f"{name}{suffix}" for folder in folders for suffix in SUFFIXES)
    return next((path for path in choices if path.is_file()), None)


def list_configs(here: Path) -> dict[str, Path]:
    """Every config that can be named, the project's own first."""
    return _list(here, "")


def list_hosts(here: Path) -> dict[str, Path]:
    """Every host that has a file, the project's own first; aliases of ~/.ssh/config can be named too."""
    return _list(here, "hosts")


def known_hosts(here: Path) -> tuple[str, ...]:
    """Every host that can be named without an address: those with a file, and the aliases of ~/.ssh/config."""
    return tuple(dict.fromkeys((*list_hosts(here), *list_aliases())))


def _list(here: Path, inside: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in config_folders(here):
        for path in sorted((folder / inside).glob("*.y*ml")):
            if path.suffix in SUFFIXES and path.is_file():
                found.setdefault(path.stem, path)
    return found


MEMORY = ".halfstep"
"""The folder in which a project remembers; what is in it is no business of configs."""


def project_above(here: Path) -> Path:
    """The project that `here` belongs to: the nearest folder upwards that remembers runs, else one with configs/ of its
    own, else `here`. A home folder, or one above it, is no project.
    """
    home = Path("~").expanduser() if "HOME" in os.environ else Path()
    folders = [folder for folder in (here, *here.parents) if not home.is_relative_to(folder)]
    for mark in (MEMORY, "configs"):
        for folder in folders:
            if (folder / mark).is_dir():
                return folder.resolve()
    return here.resolve()


def config_folders(here: Path) -> Iterator[Path]:
    """configs/ of the nearest folder that has one, from here upwards; then the shipped one."""
    for folder in (here, *here.parents):
        if (folder / "configs").is_dir():
            yield folder / "configs"
            break
    yield shipped_configs()


def _places(here: Path) -> str:
    return " or ".join(str(folder) for folder in dict.fromkeys(config_folders(here)))
