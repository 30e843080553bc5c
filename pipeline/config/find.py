"""Find the file of a config or host by name: the project's configs/ comes before the built-in one."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.config.destination import is_destination
from pipeline.config.shipped import shipped_configs
from remote.errors import BadUsage
from remote.link.address import HOST, LOCAL
from remote.link.ssh.aliases import file_of_alias, is_alias, list_aliases
from remote.project.paths import exists, expanded, is_file, is_folder
from remote.project.records_folder import RECORDS_FOLDER, require_own_records
from remote.protocol.dataclass import dataclass
from remote.protocol.shell import shell_command

DATA_NAMES = ("data", "dataset", "datasets", "corpus", "audio", "wavs")
SUFFIXES = (".yaml", ".yml")


def is_path(name: str) -> bool:
    """Return True for a path, False for a name."""
    return "/" in name or name.endswith(SUFFIXES)


def find_config(name: str, cwd: Path) -> Path:
    """Return the file of a run's config. Raises BadUsage with the most similar name."""
    path = _file_of(name, cwd, config_folders(cwd))
    if path is not None and (exists(path) or not (near := _near_path(name, path, cwd))):
        return path
    if path is not None:
        raise BadUsage(f"there is no config {path}", where="--config", hint="pipeline configs", instead=(name, near))
    near_names = difflib.get_close_matches(name, list_configs(cwd), n=1)
    raise BadUsage(
        f"there is no config {name!r} in {_places(cwd)}",
        where="--config",
        hint=shell_command("pipeline init --config {}", name),
        instead=(name, near_names[0]) if near_names else None,
    )


def _near_path(typed: str, path: Path, cwd: Path) -> str:
    """Return the argument for an existing config that is similar to a wrong path, or "" if no config is similar."""
    siblings = [each.name for each in path.parent.glob("*.y*ml")] if is_folder(path.parent) else []
    if near := difflib.get_close_matches(path.name, siblings, n=1):
        return str(Path(typed).parent / near[0])
    return next(iter(difflib.get_close_matches(path.stem, list_configs(cwd), n=1)), "")


@dataclass(frozen=True)
class HostSource:
    """The file with the settings of a host.

    `path` is None for an alias, an address or `local`. `shadows` is the configuration file of ssh that has an alias of
    the same name as a file of the project, else "".
    """

    path: Path | None = None
    shadows: str = ""


def find_host(name: str, cwd: Path, config_path: Path | None = None) -> HostSource:
    """Find a host: first in the files of the project, then in ssh's aliases, then in the shipped files.

    `config_path` is the file of a run's config. The hosts in the folder of that file come first, unless the config is
    built in. An ssh command, and a name with a user or a port, are never treated as the name of a file.
    """
    if is_destination(name):
        return HostSource()
    first = [config_path.parent] if config_path is not None and config_path.parent != shipped_configs() else []
    path = _file_of(name, cwd, [folder / "hosts" for folder in (*first, *config_folders(cwd))])
    if path is None or is_path(name) or name == LOCAL or not (file := file_of_alias(name)):
        return HostSource(path)
    return HostSource() if is_shipped_host(path) else HostSource(path, shadows=file)


def is_configured_host(name: str, cwd: Path) -> bool:
    """Return True if `name` is a plain name, and a host file or an alias of ssh has this name."""
    if is_path(name) or is_destination(name) or not HOST.fullmatch(name):
        return False
    return find_host(name, cwd).path is not None or is_alias(name)


def is_shipped_config(path: Path) -> bool:
    """Return True if the config file comes with halfstep."""
    return path.parent == shipped_configs()


def is_shipped_host(path: Path) -> bool:
    """Return True if the host file comes with halfstep."""
    return path.parent == shipped_configs() / "hosts"


def _file_of(name: str, cwd: Path, folders: Iterable[Path]) -> Path | None:
    """Return the path if `name` is a path, else the first file with this name, or None."""
    if is_path(name):
        return cwd / expanded(name)
    choices = (folder / f"{name}{suffix}" for folder in folders for suffix in SUFFIXES)
    return next((path for path in choices if is_file(path)), None)


def list_configs(cwd: Path) -> dict[str, Path]:
    """Return every config by name. Configs of the project take precedence over shipped configs."""
    return _list(cwd, "")


def list_hosts(cwd: Path) -> dict[str, Path]:
    """Return every host file by name.

    Files of the project take precedence. Aliases of ~/.ssh/config are not included.
    """
    return _list(cwd, "hosts")


def known_hosts(cwd: Path) -> tuple[str, ...]:
    """Return the names of all hosts: those with a file, and the aliases of ~/.ssh/config."""
    return tuple(dict.fromkeys((*list_hosts(cwd), *list_aliases())))


def _list(cwd: Path, inside: str) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in config_folders(cwd):
        for path in sorted((folder / inside).glob("*.y*ml")):
            if path.suffix in SUFFIXES and is_file(path):
                found.setdefault(path.stem, path)
    return found


def find_project(cwd: Path) -> Path:
    """Return the root folder of the project that contains the folder `cwd`.

    The root is the nearest folder, from `cwd` upwards, that contains `.halfstep/`, else the nearest that contains
    configs/, else `cwd`. The home folder and its parents are never a project. Raises BadUsage if another user can write
    to the root.
    """
    home = expanded("~") if "HOME" in os.environ else Path()
    folders = [folder for folder in (cwd, *cwd.parents) if not home.is_relative_to(folder)]
    for mark in (RECORDS_FOLDER, "configs"):
        for folder in folders:
            if is_folder(folder / mark):
                _require_safe(folder, mark, cwd)
                return folder.resolve()
    return cwd.resolve()


def config_folders(cwd: Path) -> Iterator[Path]:
    """Yield configs/ of the folder or of its nearest parent that contains configs/, then the shipped configs.

    Raises BadUsage if another user can write to that parent.
    """
    for folder in (cwd, *cwd.parents):
        if is_folder(folder / "configs"):
            _require_safe(folder, "configs", cwd)
            yield folder / "configs"
            break
    yield shipped_configs()


def _require_safe(folder: Path, mark: str, cwd: Path) -> None:
    """Raise BadUsage if another user could have created `mark` or other files in the parent folder `folder`.

    Of the current folder, which the user chose, only the owner of `.halfstep` is checked. Members of a folder's group
    are trusted.
    """
    if folder == cwd:
        if mark == RECORDS_FOLDER:
            require_own_records(folder / mark)
        return
    own = {os.getuid(), 0}
    for path in (folder, folder / mark):
        statuses = (path.lstat(), path.stat())
        if any(status.st_uid not in own for status in statuses):
            why = "belongs to another user"
        elif statuses[1].st_mode & stat.S_IWOTH:
            why = "is writable by every user of this machine"
        else:
            continue
        raise BadUsage(
            f"{folder / mark} is not used, because {path} {why}",
            where=str(path),
            hint=shell_command("mkdir {}   (or, if you trust its files: cd {})", cwd / mark, folder),
        )


def _places(cwd: Path) -> str:
    own = [str(folder) for folder in config_folders(cwd) if folder != shipped_configs()]
    return f"{next(iter(own), 'configs/')} or among the configs that come with halfstep"


def data_folders(cwd: Path, sent: set[str]) -> Iterator[str]:
    """Yield the names of project folders that probably contain data and are not sent with the code."""
    for name in DATA_NAMES:
        if is_folder(cwd / name) and not any(path.startswith(f"{name}/") for path in sent):
            yield name
