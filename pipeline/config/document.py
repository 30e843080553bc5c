"""One YAML file as plain values, with the place of every key: small, regular, unambiguous, or refused with reasons."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixers.sources.yaml_nodes import Limits, Mapping, Node, YamlProblem, compose, find
from fixers.sources.yaml_values import duplicates, plain
from pipeline.config.given import Override
from pipeline.config.override import with_key
from remote.errors import BadUsage
from remote.protocol.findings import Finding, Severity

LIMITS = Limits(bytes=256 * 1024, depth=20, values=10_000)

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Document:
    """A YAML mapping and where its keys stand: in the file, or among the words that were typed."""

    path: str
    values: dict[str, Any]
    root: Node | None = None
    given: tuple[Override, ...] = ()

    def with_given(self, given: Sequence[Override]) -> Document:
        """The document with these keys over what the file says."""
        values = self.values
        for one in given:
            values = with_key(values, one.keys, one.value)
        return Document(self.path, values, self.root, (*self.given, *given))

    def line_of(self, key: KeyPath) -> int:
        """The line of the key, or of the nearest one above it; 0 where the document has none of it."""
        while key:
            node = find(self.root, key)
            if node is not None:
                return node.place.line
            key = key[:-1]
        return 0

    def problem(self, key: KeyPath, message: str, hint: str = "") -> Finding:
        """What is wrong with a key, with the file and line where it stands, or the words that gave it."""
        line, given = self.line_of(key), self._given_for(key)
        place = given.typed if given else f"{self.path}:{line}" if line else self.path
        name = (given.prefix if given else "") + ".".join(str(part) for part in key)
        return Finding("config", Severity.ERROR, f"{name}: {message}" if name else message, place, hint)

    def written(self, key: KeyPath, value: str) -> str:
        """How that value, as YAML, is given to the key: `name: value`, or in the words of the --set that gave it."""
        given = self._given_for(key)
        if given is None or given.keys != key:
            return value if isinstance(key[-1], int) else f"{key[-1]}: {value}"
        name = given.prefix + ".".join(given.keys)
        return f"--set {shlex.quote(f'{name}={value}')}"

    def _given_for(self, key: KeyPath) -> Override | None:
        """What gave the key; or, where the file has nothing of it, what gave a section that it would lie in."""
        about = [one for one in self.given if one.about(key)]
        while key and not about and not self.line_of(key):
            about = [one for one in self.given if one.inside(key)]
            key = key[:-1]
        return about[-1] if about else None


class BadConfig(BadUsage):
    """One or more problems of a configuration, all told at once."""


def read_document(path: Path) -> Document:
    """The file's values. Raises BadConfig or BadUsage with the file, the line and the reason."""
    return parse_document(str(path), _read(path))


def parse_document(path: str, data: bytes) -> Document:
    """The values of these bytes. Raises BadConfig."""
    try:
        root = compose(data, LIMITS, tags=False)
        values = plain(root, LIMITS)
    except YamlProblem as error:
        raise BadConfig(error.message, findings=(_yaml_finding(path, data, error),)) from None
    if values is None:
        raise BadConfig(f"{path}: the file is empty", where=path, hint="docs/configuration.md has every key")
    if not isinstance(root, Mapping) or not isinstance(values, dict):
        raise BadConfig(f"{path}: expected `key: value` lines, got {type(values).__name__}", where=path)
    twice = tuple(
        Finding(
            "config",
            Severity.ERROR,
            f"{'.'.join(map(str, d.path))}: written twice, in lines {d.first.line} and {d.second.line}",
            f"{path}:{d.second.line}",
        )
        for d in duplicates(root)
    )
    if twice:
        raise BadConfig(f"{path}: a key is written twice", findings=twice)
    return Document(path, values, root)


def _yaml_finding(path: str, data: bytes, error: YamlProblem) -> Finding:
    lines = data.decode("utf-8", "replace").splitlines()
    shown = f"\n{error.line:>5} | {lines[error.line - 1][:200]}" if 0 < error.line <= len(lines) else ""
    place = f"{path}:{error.line}:{error.column}" if error.line else path
    return Finding("config", Severity.ERROR, f"{error.message}{shown}", place)


def _read(path: Path) -> bytes:
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
        return path.read_bytes()
    except FileNotFoundError:
        raise BadUsage(f"there is no config {path}", where=str(path), hint="pipeline configs") from None
    except PermissionError:
        raise BadUsage(f"{path} cannot be read: permission denied", where=str(path)) from None
