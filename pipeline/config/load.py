"""A name and its overrides to a typed config, with the project it belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fixers.sources.yaml_nodes import YamlProblem, compose
from fixers.sources.yaml_values import plain
from pipeline.config.checks import check_run_config
from pipeline.config.document import BadConfig, Document, read_document
from pipeline.config.find import find_config, find_host_file
from pipeline.config.model import HostConfig, RunConfig
from pipeline.config.override import with_key
from pipeline.config.problems import validate
from pipeline.config.shipped import shipped_configs
from remote.errors import BadUsage
from remote.protocol.cards import UnknownCard, parse_card


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


@dataclass(frozen=True)
class LoadedHost:
    """A host by the name it goes by; `path` None: an ssh alias or address without a file."""

    name: str
    path: Path | None
    config: HostConfig


def load_config(name: str, here: Path, overrides: Sequence[str] = ()) -> LoadedConfig:
    """The config that `name` means from `here`, with `a.b=c` overrides. Raises BadUsage, BadConfig."""
    path = find_config(name, here)
    written = read_document(path)
    document = _overridden(written, overrides)
    config = validate(RunConfig, document)
    root = (_base(path, here) / config.project).resolve()
    if not root.is_dir():
        raise BadConfig("", findings=(document.problem(("project",), f"there is no folder {root}"),))
    problems = check_run_config(config, document, root)
    if problems:
        raise BadConfig(f"{path}: {len(problems)} problems", findings=problems)
    settings = written.values.get("fixers") or {}
    return LoadedConfig(path.stem, path, root, config, settings if isinstance(settings, dict) else {})


def load_host(name: str, here: Path, overrides: Sequence[str] = ()) -> LoadedHost:
    """The host that `name` means: a file of configs/hosts, `local`, or an alias of ~/.ssh/config."""
    path = find_host_file(name, here)
    document = read_document(path) if path else Document("--host", {"host": name})
    config = validate(HostConfig, _overridden(document, overrides))
    if config.card is not None:
        try:
            parse_card(config.card)
        except UnknownCard as error:
            raise BadConfig(str(error), findings=(document.problem(("card",), str(error)),)) from None
    return LoadedHost(path.stem if path else name, path, config)


def _base(path: Path, here: Path) -> Path:
    """What `project:` is relative to: the folder that holds configs/, the file's own folder, or here if shipped."""
    if path.parent == shipped_configs():
        return here
    return path.parent.parent if path.parent.name == "configs" else path.parent


def _overridden(document: Document, overrides: Sequence[str]) -> Document:
    values = document.values
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            raise BadUsage(f"--set wants a.b=c, got {override!r}", where="--set", hint="--set train.learning_rate=1e-5")
        values = with_key(values, key.strip().split("."), _value(override, text))
    return Document(document.path, values, document.root)


def _value(override: str, text: str) -> Any:
    try:
        return plain(compose(text, tags=False))
    except YamlProblem as error:
        raise BadUsage(f"--set {override!r}: {error.message}", where="--set") from None
