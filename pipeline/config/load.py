"""A name and its overrides to a typed config, with the project it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.config.checks import check_run_config
from pipeline.config.document import BadConfig, read_document
from pipeline.config.find import find_config, project_above
from pipeline.config.given import parse_override
from pipeline.config.model import RunConfig
from pipeline.config.problems import validate
from pipeline.config.shipped import shipped_configs


@dataclass(frozen=True)
class LoadedConfig:
    """A run's config, by the name it goes by; `root` is the project's folder on the laptop.

    `fixer_settings`: the file's own `fixers:`, without what `--set` made of it.
    """

    name: str
    path: Path
    root: Path
    config: RunConfig
    fixer_settings: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Every key with its value, as plain JSON."""
        return self.config.model_dump(mode="json")


def load_config(name: str, here: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """The config that `name` means from `here`, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    return load_file(find_config(name, here), here, overrides)


def load_file(path: Path, here: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """The config in that file, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    given = [parse_override(override) for override in overrides]
    written = read_document(path)
    document = written.with_given(given)
    config = validate(RunConfig, document)
    root = (_base(path, here) / config.project).resolve()
    if not root.is_dir():
        raise BadConfig("", findings=(document.problem(("project",), f"there is no folder {root}"),))
    problems = check_run_config(config, document, root)
    if problems:
        raise BadConfig(f"{path}: {len(problems)} problems", findings=problems)
    settings = written.values.get("fixers") or {}
    return LoadedConfig(path.stem, path, root, config, settings if isinstance(settings, dict) else {})


def _base(path: Path, here: Path) -> Path:
    """What `project:` is relative to: the folder of configs/, the file's own, or, if shipped, the project we are in."""
    if path.parent == shipped_configs():
        return project_above(here)
    return path.parent.parent if path.parent.name == "configs" else path.parent
