"""YAML and JSON settings files, and their nodes."""

from __future__ import annotations

from fixers.sources.json_nodes import read_json
from fixers.sources.nodes import Node
from fixers.sources.unparsable import Unparsable
from fixers.sources.yaml_nodes import Limits, YamlProblem, compose_all

YAML = (".yaml", ".yml")
JSON = (".json", ".jsonc", ".json5")
LARGEST = Limits(bytes=4 * 2**20, depth=100)


def is_yaml(path: str) -> bool:
    return path.lower().endswith(YAML)


def is_json(path: str) -> bool:
    return path.lower().endswith(JSON)


def reads_config(path: str) -> bool:
    """Return True for a YAML or JSON file name."""
    return is_yaml(path) or is_json(path)


def read_config(path: str, data: bytes) -> tuple[Node, ...]:
    """Return the root node of every document in the file. Raises Unparsable."""
    if is_json(path):
        return (read_json(data),)
    try:
        return compose_all(data, LARGEST)
    except YamlProblem as problem:
        raise Unparsable(problem.message, max(problem.line, 1)) from None
