"""Load a config by name, with its overrides, and find its project."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.checks import check_run_config
from pipeline.config.document import BadConfig, read_document
from pipeline.config.find import find_config, find_project
from pipeline.config.model import RunConfig
from pipeline.config.overrides import parse_override
from pipeline.config.problems import validate
from pipeline.config.shipped import shipped_configs


@dataclass(frozen=True)
class LoadedConfig:
    """A run's config. `root` is the project's folder on the laptop; `fixer_settings` is `fixers:` without overrides."""

    name: str
    path: Path
    root: Path
    config: RunConfig
    fixer_settings: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all keys and values as plain JSON."""
        return self.config.model_dump(mode="json")


def load_config(name: str, cwd: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Load the config of that name, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    return load_file(find_config(name, cwd), cwd, overrides)


def load_file(path: Path, cwd: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """Load the config in that file, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    file = read_document(path)
    document = file.with_overrides([parse_override(override) for override in overrides])
    config = validate(RunConfig, document)
    root = (_base(path, cwd) / config.project).resolve()
    if not root.is_dir():
        raise BadConfig("", findings=(document.problem(("project",), f"there is no folder {root}"),))
    problems = check_run_config(config, document, root)
    if problems:
        raise BadConfig(f"{path}: {len(problems)} problems", findings=problems)
    settings = file.values.get("fixers") or {}
    return LoadedConfig(path.stem, path, root, config, settings if isinstance(settings, dict) else {})


def _base(path: Path, cwd: Path) -> Path:
    """Return the folder that `project:` is relative to: the parent of configs/, else the file's own folder.

    For a built-in config it is the project of the working folder.
    """
    if path.parent == shipped_configs():
        return find_project(cwd)
    return path.parent.parent if path.parent.name == "configs" else path.parent
