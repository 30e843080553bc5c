"""Convert validation errors of a config to findings with key, value, expected value and the most similar name."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from pipeline.config.document import BadConfig, Document, KeyPath, shown_value
from remote.protocol.findings import Finding

M = TypeVar("M", bound=BaseModel)
PLAIN_WORD = re.compile(r"-{0,2}[A-Za-z_./][\w./@+-]*")
YAML_WORDS = ("yes", "no", "on", "off", "true", "false", "null", "y", "n")
QUOTED = re.compile(r"'([^']*)'")
MOST_NAMES = 8
FEWEST_UNKNOWN = 3
LISTS = ("list_type", "tuple_type")
MAPPINGS = ("dict_type", "model_type", "model_attributes_type")


def is_valid(model: type[M], document: Document) -> bool:
    """Return whether the document is a `model`, without a message for each problem."""
    try:
        model.model_validate(document.values)
    except ValidationError:
        return False
    return True


def validate(model: type[M], document: Document) -> M:
    """Return the document as a `model`. Raises BadConfig with every problem."""
    try:
        return model.model_validate(document.values)
    except ValidationError as error:
        if foreign := _no_config(document, error.errors()):
            raise BadConfig(foreign.message, findings=(foreign,)) from None
        found = _without_repeats([_finding(model, document, problem) for problem in error.errors()])
        raise BadConfig(f"{document.path}: {len(found)} problems", findings=document.in_order(found)) from None


def _finding(model: type[BaseModel], document: Document, problem: Any) -> Finding:
    key = _yaml_path(document, problem["loc"])
    if problem["type"] == "extra_forbidden":
        return _unknown(model, document, key)
    got = problem.get("input")
    if problem["type"] == "missing":
        return document.problem(key, "is required")
    if isinstance(got, bool) and "string" in problem["type"]:
        return document.problem(key, f"got a boolean ({got}), because YAML reads yes/no/on/off as booleans; quote it")
    return document.problem(
        key, f"{_expected(model, key, problem)}, got {shown_value(got)}", _suggestion(model, document, key, problem)
    )


def _unknown(model: type[BaseModel], document: Document, key: KeyPath) -> Finding:
    names = _names_at(model, key[:-1])
    word = str(key[-1])
    near = [name for name in names if "".join(part[:1] for part in name.split("_")) == word]
    near = near or difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return document.problem(key, f"unknown key; did you mean {near[0]}?", document.renamed(key, near[0]))
    if len(names) > MOST_NAMES:
        return document.problem(key, "unknown key", "pipeline docs configuration")
    return document.problem(key, f"unknown key; the keys are {', '.join(sorted(names))}")


def _no_config(document: Document, problems: Sequence[Any]) -> Finding | None:
    """Return one problem if the file is not a config of halfstep, because most of its keys are unknown, else None."""
    unknown = [one for one in problems if one["type"] == "extra_forbidden"]
    values = sum(_value_count(one["input"]) for one in unknown)
    if len(unknown) < FEWEST_UNKNOWN or 2 * values <= _value_count(document.values):
        return None
    names = ", ".join(".".join(map(str, one["loc"])) for one in unknown[:FEWEST_UNKNOWN])
    message = f"{document.path} is not a halfstep config: most of its keys are unknown ({names}, ...)"
    return Finding.error("config", message, document.path, "pipeline configs")


def _value_count(value: Any) -> int:
    return sum(map(_value_count, value.values())) if isinstance(value, dict) else 1


def _names_at(model: type[BaseModel], key: KeyPath) -> list[str]:
    for part in key:
        field = model.model_fields.get(str(part))
        inner = _model_of(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in get_args(annotation) if (found := _model_of(part)) is not None), None)


def _yaml_path(document: Document, loc: tuple[str | int, ...]) -> KeyPath:
    """Return pydantic's error location as a key of the document, without the names of union members."""
    path: list[str | int] = []
    value: Any = document.values
    for part in loc:
        inside = isinstance(value, dict) and part in value
        inside = inside or (isinstance(value, list) and isinstance(part, int) and part < len(value))
        if inside:
            path.append(part)
            value = value[part]
        elif isinstance(part, str) and part.isidentifier() and part == loc[-1] and isinstance(value, dict):
            path.append(part)
    return tuple(path)


def _without_repeats(found: list[Finding]) -> tuple[Finding, ...]:
    """Keep one finding for each location, because every member of a union reports the same value."""
    kept: dict[tuple[str, str], Finding] = {}
    for finding in found:
        kept.setdefault((finding.where, finding.message.partition(":")[0]), finding)
    return tuple(kept.values())


def _expected(model: type[BaseModel], key: KeyPath, problem: Any) -> str:
    if problem["type"] in LISTS:
        return "should be a list"
    if problem["type"] in MAPPINGS:
        names = _names_at(model, key)
        return f"should be keys and values ({', '.join(names)})" if names else "should be names and values"
    message = str(problem["msg"])
    return message.replace("Input should be", "should be").replace("a valid ", "")


def _suggestion(model: type[BaseModel], document: Document, key: KeyPath, problem: Any) -> str:
    """Return the setting that the user probably meant, as text to type, or "" if there is no suggestion."""
    value = _suggested_value(model, key, problem) if key else ""
    return document.as_typed(key, value) if value else ""


def _suggested_value(model: type[BaseModel], key: KeyPath, problem: Any) -> str:
    got = problem.get("input")
    if problem["type"] in LISTS and isinstance(got, int | float):
        return f"[{got}]"
    if problem["type"] in LISTS and isinstance(got, str):
        return f"[{quoted_item(got)}]"
    if problem["type"] in MAPPINGS and isinstance(got, str):
        inner = _names_at(model, key)
        return f"{{{inner[0] if inner else 'NAME'}: {quoted_item(got)}}}"
    if problem["type"] == "string_type" and (got is None or isinstance(got, int | float)):
        return '""' if got is None else f'"{got}"'
    if problem["type"] == "literal_error" and isinstance(got, str):
        return next(iter(difflib.get_close_matches(got, QUOTED.findall(problem["ctx"]["expected"]), n=1)), "")
    return ""


def quoted_item(word: str) -> str:
    """Return the word in a form that is valid inside a YAML list in brackets."""
    plain = PLAIN_WORD.fullmatch(word) and word.lower() not in YAML_WORDS
    return word if plain else json.dumps(word, ensure_ascii=False)
