"""One YAML config as plain values, with the line of every key."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from fixers.sources.yaml_nodes import Limits, Mapping, Node, YamlProblem, compose, find
from fixers.sources.yaml_values import duplicates, plain
from pipeline.config.overrides import Override, with_key
from pipeline.config.shipped import shipped_configs
from remote.errors import BadUsage
from remote.project.paths import expanded, resolved
from remote.project.real_paths import is_inside, real_path_of
from remote.project.repository import find_repository
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding
from remote.protocol.regular import open_regular
from remote.protocol.shell import command_line, shell_command
from remote.protocol.text import whole_number

LIMITS = Limits(bytes=256 * 1024, depth=20, values=10_000)

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML mapping with the origin of each key: a line of the file, or a `--set` option."""

    path: str
    values: dict[str, Any]
    root: Node | None = None
    overrides: tuple[Override, ...] = ()

    def with_overrides(self, overrides: Sequence[Override]) -> Document:
        """Return the document with the values that the overrides set."""
        values = self.values
        for override in overrides:
            values = with_key(values, override.keys, override.value)
        return Document(self.path, values, self.root, (*self.overrides, *overrides))

    def line_of(self, key: KeyPath) -> int:
        """Return the line of the key or of its nearest parent, or 0 if the file contains neither."""
        while key:
            node = find(self.root, key)
            if node is not None:
                return node.span.line
            key = key[:-1]
        return 0

    def problem(self, key: KeyPath, message: str, hint: str = "") -> Finding:
        """Return the finding of a problem with a key.

        `where` is the file and line of the key, or the option that set it.
        """
        line, override = self.line_of(key), self._override_of(key)
        place = override.typed if override else f"{self.path}:{line}" if line else self.path
        name = (override.prefix if override else "") + ".".join(str(part) for part in key)
        return Finding.error("config", f"{name}: {message}" if name else message, place, hint)

    def in_order(self, findings: Collection[Finding]) -> tuple[Finding, ...]:
        """Return the findings by line of the file, then those of options."""
        prefix = f"{self.path}:"
        lines = {one.where: whole_number(one.where.removeprefix(prefix).partition(":")[0]) for one in findings}
        return tuple(sorted(findings, key=lambda one: sys.maxsize if (at := lines[one.where]) is None else at))

    def as_typed(self, key: KeyPath, value: str) -> str:
        """Return the text that sets the key: `name: value`, or a `--set` option if the key was set by an option."""
        override = self._override_of(key)
        if override is None or override.keys != key:
            return value if isinstance(key[-1], int) else f"{key[-1]}: {value}"
        name = override.prefix + ".".join(override.keys)
        return shell_command("--set {}", f"{name}={value}")

    def renamed(self, key: KeyPath, name: str) -> str:
        """Return the `--set` option that set this key, with the key renamed, or "" if no option set the key."""
        override = self._override_of(key)
        if override is None or override.keys != key:
            return ""
        path, value = ".".join((*override.keys[:-1], name)), override.typed.partition("=")[2]
        return command_line(["--set", f"{override.prefix}{path}={value}"])

    def _override_of(self, key: KeyPath) -> Override | None:
        """Return the override that set the key, or None.

        If the file lacks the key, return an override of another key in the same section.
        """
        found = [override for override in self.overrides if override.covers(key)]
        while key and not found and not self.line_of(key):
            found = [override for override in self.overrides if override.is_inside(key)]
            key = key[:-1]
        return found[-1] if found else None


class BadConfig(BadUsage):
    """One or more problems of a configuration, reported together."""


def read_document(path: Path) -> Document:
    """Read a config file. Raises BadConfig or BadUsage with the file, the line and the reason."""
    return parse_document(str(path), read_config(path))


def parse_document(path: str, data: bytes) -> Document:
    """Parse the bytes of a config file. Raises BadConfig."""
    try:
        root = compose(data, LIMITS, tags=False)
        values = plain(root, LIMITS)
    except YamlProblem as error:
        raise BadConfig(error.message, findings=(_yaml_finding(path, data, error),)) from None
    if values is None:
        raise BadConfig(f"{path}: the file is empty", where=path, hint="docs/configuration.md has every key")
    if not isinstance(root, Mapping) or not isinstance(values, dict):
        raise BadConfig(f"{path}: expected `key: value` lines, got {type(values).__name__}", where=path)
    repeated = tuple(
        Finding.error(
            "config",
            f"{'.'.join(map(str, d.path))}: written twice, in lines {d.first.line} and {d.second.line}",
            f"{path}:{d.second.line}",
        )
        for d in duplicates(root)
    )
    if repeated:
        raise BadConfig(f"{path}: a key is written twice", findings=repeated)
    return Document(path, values, root)


def _yaml_finding(path: str, data: bytes, error: YamlProblem) -> Finding:
    lines = data.decode("utf-8", "replace").splitlines()
    shown = f"\n{error.line:>5} | {lines[error.line - 1][:200]}" if 0 < error.line <= len(lines) else ""
    place = f"{path}:{error.line}:{error.column}" if error.line else path
    return Finding.error("config", f"{error.message}{shown}", place)


def read_config(path: Path) -> bytes:
    """Return the bytes of a config file. Raises BadUsage, also for a link out of the project."""
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise BadUsage(f"{path} is a directory, not a config", where=str(path))
        if not stat.S_ISREG(status.st_mode):
            raise BadUsage(f"{path} is not a regular file", where=str(path))
        if status.st_size > LIMITS.bytes:
            raise BadUsage(
                f"{path} has {status.st_size} bytes; the limit for a config is {LIMITS.bytes}", where=str(path)
            )
        with open_regular(path, follow=True) as file:
            _require_own_file(path, real_path_of(file))
            return file.read(LIMITS.bytes + 1)
    except FileNotFoundError:
        raise BadUsage(f"there is no config {path}", where=str(path), hint="pipeline configs") from None
    except PermissionError:
        raise BadUsage(f"{path} cannot be read: permission denied", where=str(path)) from None


def _require_own_file(path: Path, real: str) -> None:
    """Refuse a config that is a link out of its project, because errors and reports show its content.

    The project is the git work tree and the parent of configs/, but never a parent of the home folder. Outside of a
    project, a link must stay in the folder of the config. A linked folder is permitted, except for hosts/, which is
    searched beside every config, and so are halfstep's own files, which an installer may have linked.
    """
    parent, shipped = path.absolute().parent, shipped_configs()
    is_linked = parent.name == "hosts" and parent.is_symlink()
    folder = resolved(parent.parent if is_linked else parent)
    if is_inside(real, [folder]) or path.parent in (shipped, shipped / "hosts"):
        return
    places = _project_around(path)
    repository = find_repository(folder)
    places += [resolved(repository.work_tree)] if repository is not None else []
    home = resolved(expanded("~")) if "HOME" in os.environ else Path()
    if not is_inside(real, [place for place in places if not home.is_relative_to(place)]):
        message = f"{path} is a link to {real}, outside of the project: configs are not read through such links"
        raise BadUsage(message, where=str(path), hint="replace the link with a copy of the file")


def _project_around(path: Path) -> list[Path]:
    """Return [the resolved parent of the configs/ folder] that contains the file (directly, or in hosts/), or [].

    The list is empty if the working folder is inside that configs/, or if configs/ is itself a git work tree: a cloned
    project may have the name `configs`.
    """
    # Links are not resolved here, because the archive of a project may link configs/ to a folder of another name.
    folder = path.absolute().parent
    configs = folder.parent if folder.name == "hosts" else folder
    if configs.name != "configs" or Path.cwd().is_relative_to(resolved(configs)):
        return []
    repository = find_repository(resolved(configs))
    is_clone = repository is not None and resolved(repository.work_tree) == resolved(configs)
    return [] if is_clone else [resolved(configs.parent)]


def shown_value(value: Any) -> str:
    """Return the value for a message, shortened; an empty YAML value is "no value"."""
    text = "no value" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
