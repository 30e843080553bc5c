"""Find paths in code and configs that exist on the laptop but not on the host. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Container, Iterable, Iterator

from pipeline.judgements.path_text import is_in_home_folder, is_windows
from pipeline.judgements.path_uses import PathUse
from remote.protocol.dataclass import dataclass
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding, Report, Severity

CHECK = "laptop-path"


@dataclass(frozen=True)
class Laptop:
    """Paths of the laptop: `root` is the project's folder, `data` the folder of `data.path`, `home` the home folder.

    `exists` returns whether an absolute path exists on the laptop.
    """

    root: str
    home: str
    exists: Callable[[str], bool]
    data: str = ""

    def absolute(self, path: str) -> str:
        """Return the path as an absolute path. Relative paths are resolved against the project's folder."""
        expanded = f"{self.home}{path[1:]}" if path.startswith("~/") else path
        return posixpath.normpath(posixpath.join(self.root, expanded))


def suspects(uses: Iterable[PathUse], laptop: Laptop) -> tuple[PathUse, ...]:
    """Return the uses of paths outside the project that exist on the laptop or are in a home folder."""
    return tuple(use for use in uses if not _is_project_relative(use, laptop) and _is_of_laptop(use, laptop))


def judge_laptop_paths(found: Iterable[PathUse], laptop: Laptop, on_host: Container[str]) -> Report:
    """Return a finding for each path that the host lacks: an error if the path is certainly read, else a warning."""
    return Report(tuple(_finding(use, laptop) for use in dict.fromkeys(found) if use.path not in on_host))


def _is_of_laptop(use: PathUse, laptop: Laptop) -> bool:
    return is_in_home_folder(use.path) or laptop.exists(laptop.absolute(use.path))


def _is_project_relative(use: PathUse, laptop: Laptop) -> bool:
    """Return True for a path such as `../data` that, relative to its file or to the root, is inside the project."""
    if not use.path.startswith("../"):
        return False
    target = posixpath.normpath(posixpath.join(posixpath.dirname(use.file), use.path))
    return not target.startswith("../") or _is_inside(laptop.absolute(use.path), laptop.root)


def _is_inside(path: str, folder: str) -> bool:
    return bool(folder) and (path == folder or path.startswith(f"{folder}/"))


def _finding(use: PathUse, laptop: Laptop) -> Finding:
    severity = Severity.ERROR if use.certain else Severity.WARNING
    code = ExitCode.ENVIRONMENT if use.certain else ExitCode.OK
    return Finding(CHECK, severity, " ".join(_words(use, laptop)), use.where, _hint(use, laptop), code)


def _words(use: PathUse, laptop: Laptop) -> Iterator[str]:
    if is_windows(use.path):
        yield f"{use.path} is a Windows path"
    elif laptop.exists(laptop.absolute(use.path)):
        yield f"{use.path} is on this machine"
    else:
        yield f"{use.path} is in a home folder of another machine"
    yield "and not on the host"
    if use.certain:
        yield "and the command reads it"


def _hint(use: PathUse, laptop: Laptop) -> str:
    """Return a suggestion for a portable path."""
    path = laptop.absolute(use.path)
    if _is_inside(path, laptop.root) and path != laptop.root:
        return f"write the path relative to the project: {posixpath.relpath(path, laptop.root)}"
    if use.model:
        return "write a hub id (owner/name), or the model's path on the host"
    if _is_inside(path, laptop.data):
        return (
            "read the path from os.environ['HALFSTEP_DATA_DIR'] ({data_dir} in `command:`), the folder of `data.path`"
        )
    named = use.path if is_windows(use.path) else path
    return f"data: {{path: {named}}} in the config, read from $HALFSTEP_DATA_DIR; or a path of the host, in `env:`"
