"""Load a config by name, with its overrides, and find its project."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.config.checks import check_run_config
from pipeline.config.document import BadConfig, Document, parse_document, read_config
from pipeline.config.find import find_config, find_project
from pipeline.config.fixer_settings import judge_fixers
from pipeline.config.model import RunConfig
from pipeline.config.overrides import parse_override
from pipeline.config.placeholders import check_placeholders, fill_command, settings_named
from pipeline.config.problems import validate
from pipeline.config.shipped import shipped_configs
from remote.project.paths import is_folder, resolved, why_hidden
from remote.protocol.dataclass import dataclass, field


@dataclass(frozen=True)
class LoadedConfig:
    """A run's config. `root` is the project's folder on the laptop; `fixer_settings` is `fixers:` without overrides.

    `spelled` is the path of the project's folder as config and user wrote it, with its links.
    `varied` are the overrides that distinguish this run from the other runs of the same command. `named` are the
    settings of `train:` and `lora:` whose values the file's `command:` contains. `content` are the bytes of the file
    as they were parsed: use them instead of reading the file again, which may have changed in between.
    """

    name: str
    path: Path
    root: Path
    spelled: Path
    config: RunConfig
    fixer_settings: dict[str, Any] = field(default_factory=dict)
    varied: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    content: bytes = field(default=b"", repr=False)

    @property
    def text(self) -> str:
        """The text of the file, without overrides."""
        return self.content.decode("utf-8", "replace")

    @property
    def record(self) -> str:
        """The name for the records of this config: stage checkpoints, cures and evidence."""
        values = "\n".join(sorted(self.varied)).encode()
        return f"{self.name}@{hashlib.sha256(values).hexdigest()[:8]}" if self.varied else self.name

    def as_json(self) -> dict[str, Any]:
        """Return all keys and values as plain JSON."""
        return self.config.model_dump(mode="json")


def load_config(name: str, cwd: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Load the config `name` with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    return load_file(find_config(name, cwd), cwd, overrides)


def load_file(path: Path, cwd: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Load the config in the file `path`, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    content = read_config(path)
    file = parse_document(str(path), content)
    document = file.with_overrides([parse_override(override) for override in overrides])
    written = _validated(document)
    config = fill_command(written)
    spelled = (_base(path, cwd) / config.project).absolute()
    root = resolved(spelled)
    if not is_folder(root):
        hidden = why_hidden(root)
        message = f"{root} cannot be read: {hidden}" if hidden else f"there is no folder {root}"
        folder_problem = document.problem(("project",), message)
        raise BadConfig("", findings=document.in_order((folder_problem, *judge_fixers(document))))
    problems = (*check_placeholders(written, document), *check_run_config(config, document, root))
    if problems:
        raise BadConfig(f"{path}: {len(problems)} problems", findings=document.in_order(problems))
    settings = file.values.get("fixers") or {}
    named = settings_named(written.command)
    settings = settings if isinstance(settings, dict) else {}
    return LoadedConfig(path.stem, path, root, spelled, config, settings, named=named, content=content)


def _validated(document: Document) -> RunConfig:
    """Return the document as a config. Raises BadConfig with every problem, also of the section `fixers:`."""
    try:
        return validate(RunConfig, document)
    except BadConfig as error:
        more = judge_fixers(document)
        if not more:
            raise
        found = document.in_order((*error.findings, *more))
        raise BadConfig(f"{document.path}: {len(found)} problems", findings=found) from None


def _base(path: Path, cwd: Path) -> Path:
    """Return the folder to which `project:` is relative.

    For a shipped config, this is the project of the working folder.
    """
    return find_project(cwd) if path.parent == shipped_configs() else folder_of(path)


def folder_of(path: Path) -> Path:
    """Return the parent of configs/ if the config's file is in configs/, else the folder of the file."""
    return path.parent.parent if path.parent.name == "configs" else path.parent
