"""Generate the JSON Schemas of config files from the models and the descriptions in docs/configuration.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.config.schema import schema_path

MODELS: Mapping[str, tuple[type[RunConfig | HostConfig], str]] = {
    "config": (RunConfig, "A config of halfstep: configs/NAME.yaml"),
    "host": (HostConfig, "A host of halfstep: configs/hosts/NAME.yaml"),
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SECTION = {"host": "## configs/hosts/NAME.yaml", "config": "## configs/NAME.yaml"}
ROW = re.compile(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", re.MULTILINE)


def render_schemas(configuration: str) -> dict[str, str]:
    """Return the text of each schema by kind. `configuration` is the text of the page that describes every key."""
    return {kind: _render(kind, configuration) for kind in MODELS}


def write_schemas(docs: Path) -> None:
    """Write the schemas next to the models, and copies of them to docs/schemas/."""
    for kind, text in render_schemas((docs / "configuration.md").read_text("utf-8")).items():
        for path in (schema_path(kind), docs / "schemas" / f"{kind}.schema.json"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, "utf-8")


def _render(kind: str, configuration: str) -> str:
    model, title = MODELS[kind]
    schema: dict[str, Any] = {"$schema": DIALECT, **model.model_json_schema(), "title": title}
    schema.pop("description", None)
    for name, meaning in _meanings(kind, configuration):
        if name in schema["properties"]:
            schema["properties"][name]["description"] = meaning
    _drop_titles(schema)
    return json.dumps({**schema, "title": title}, indent=1, ensure_ascii=False) + "\n"


def _meanings(kind: str, configuration: str) -> Iterator[tuple[str, str]]:
    """Yield (key, description) of each table row that describes a single key."""
    part = configuration.partition(SECTION[kind])[2].partition("\n## ")[0]
    yield from ((match[1], match[2].replace("`", "")) for match in ROW.finditer(part))


def _drop_titles(node: Any) -> None:
    """Remove the titles that pydantic generates from key names. A key with the name `title` is kept."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        for child in node.values():
            _drop_titles(child)
    elif isinstance(node, list):
        for child in node:
            _drop_titles(child)
