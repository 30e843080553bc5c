"""Recognise YAML, JSON, TOML and INI settings files, and parse them to nodes."""

from __future__ import annotations

import posixpath

from fixers.sources.ini_nodes import read_ini
from fixers.sources.json_nodes import read_json
from fixers.sources.nodes import Node
from fixers.sources.toml_nodes import read_toml
from fixers.sources.unparsable import LARGEST_TEXT, Unparsable
from fixers.sources.yaml_nodes import Limits, YamlProblem, compose_all

YAML = (".yaml", ".yml")
JSON = (".json", ".jsonc", ".json5")
INI = (".ini", ".cfg")
TOOL_CONFIGS = frozenset(
    {"pyproject.toml", "setup.cfg", "tox.ini", "uv.toml", "pixi.toml", "pipfile.toml", "cargo.toml"}
)
"""Settings files of packaging and linting tools. Names in these files select no precision."""
LARGEST = Limits(bytes=LARGEST_TEXT, depth=100, values=1_000_000)


def is_yaml(path: str) -> bool:
    return path.lower().endswith(YAML)


def is_json(path: str) -> bool:
    return path.lower().endswith(JSON)


def is_toml(path: str) -> bool:
    return path.lower().endswith(".toml") and not _is_tool_config(path)


def is_ini(path: str) -> bool:
    return path.lower().endswith(INI) and not _is_tool_config(path)


def _is_tool_config(path: str) -> bool:
    return posixpath.basename(path).lower() in TOOL_CONFIGS


def reads_config(path: str) -> bool:
    """Return True for the path of a YAML, JSON, TOML or INI settings file."""
    return is_yaml(path) or is_json(path) or is_toml(path) or is_ini(path)


def read_config(path: str, data: bytes) -> tuple[Node, ...]:
    """Return the root node of every document in the file. Raises Unparsable."""
    if is_json(path):
        return (read_json(data),)
    if is_toml(path):
        return (read_toml(data),)
    if is_ini(path):
        return (read_ini(data),)
    try:
        return compose_all(data, LARGEST)
    except YamlProblem as problem:
        raise Unparsable(problem.message, max(problem.line, 1)) from None
