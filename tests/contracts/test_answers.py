"""A host's answers are decoded to typed values: no code indexes the raw JSON, where a missing field would crash."""

from __future__ import annotations

import ast
import dataclasses
import enum
import importlib
import typing
from collections.abc import Iterator
from typing import Any

import pytest

from remote.errors import Garbled
from remote.host import read_answer
from remote.protocol import hidden
from remote.protocol.findings import CheckName
from remote.protocol.hidden import Identifier
from remote.protocol.layout import OptionalRunId, RunId
from remote.protocol.values import UNIONS, Signed, Verbatim, encode
from tests.contracts.project_modules import Module, modules
from tests.lab.fake_host import FakeHost

CALLS = {"ask", "act", "send", "fetch"}
DECODED_BY = {"read_answer", "read_field", "read_json_answer", "decode_answer"}
KEPT = (Identifier, Verbatim, RunId, OptionalRunId, CheckName)
"""The types of names. A hidden value in one of them is not replaced."""
FREE_TEXTS = frozenset({"error", "problem", "message", "reason", "waits", "warnings", "imports", "detail", "mismatch"})
FREE_TEXTS |= {"loads", "where", "hint", "memory", "output_tail", "note"}
"""Fields with texts of the host, or of programs on it."""
SECRET = "correct-horse-battery"
BOUNDARY = ("remote.link.", "remote.payload.")


def is_call_of_a_host(node: ast.AST) -> bool:
    """Return True for `host.ask("OPERATION", ...)` and the like. An operation's name has a dot, or is `survey`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS):
        return False
    first = node.args[0] if node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str) and first.value.replace(".", "").isalpha()


def names_of_answers(function: ast.AST) -> Iterator[str]:
    """Yield the variables of a function that contain an answer before it is decoded."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_call_of_a_host(node.value) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id


def raw_reads(module: Module) -> Iterator[int]:
    """Yield the lines that read a part of an answer before it is decoded."""
    for function in ast.walk(module.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = set(names_of_answers(function))
        for node in ast.walk(function):
            value = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
            if isinstance(value, ast.Name) and value.id in names:
                yield node.lineno
            if value is not None and is_call_of_a_host(value):
                yield node.lineno


def test_no_code_reads_a_host_s_answer_before_it_is_decoded() -> None:
    laptop = [module for module in modules() if not module.name.startswith(BOUNDARY)]
    calling = [module for module in laptop if any(is_call_of_a_host(node) for node in ast.walk(module.tree))]
    assert len(calling) > 15
    assert [f"{module.where}:{line}" for module in calling for line in raw_reads(module)] == []


def kinds_of_answers() -> dict[str, Any]:
    """Return the type of each answer that is decoded on the laptop, by its name."""
    kinds: dict[str, Any] = {}
    for module in modules():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in DECODED_BY:
                name = ast.unparse(node.args[0])
                if name != "kind":
                    kinds[name] = eval(name, vars(importlib.import_module(module.name)))
    return kinds


def answer_with_secrets(kind: Any) -> Any:
    """Return an answer of this type with the secret in each text."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        return answer_with_secrets(args[0])
    if origin in UNIONS:
        return answer_with_secrets(next(arg for arg in args if arg is not type(None)))
    if origin is dict:
        return {"key": answer_with_secrets(args[1])}
    if origin in (tuple, list):
        return [answer_with_secrets(arg) for arg in args if arg is not ...]
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return {field.name: answer_with_secrets(hints[field.name]) for field in dataclasses.fields(kind)}
    if issubclass(kind, enum.Enum):
        return next(iter(kind)).value
    return {str: f"a {SECRET} b", bytes: ""}.get(kind, 0) if kind is not bool else False


def names_in(kind: Any, place: str = "") -> Iterator[str]:
    """Yield the places of the texts in which a hidden value is kept."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind in KEPT:
        yield place
    elif origin is not None and origin is not typing.Annotated:
        for arg in args:
            yield from names_in(arg, place)
    elif dataclasses.is_dataclass(kind):
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            yield from names_in(hint, f"{place}.{name}")


def places_with_secret(data: Any, place: str = "") -> Iterator[str]:
    if isinstance(data, str) and SECRET in data:
        yield place
    for item in data if isinstance(data, list) else ():
        yield from places_with_secret(item, place)
    for name, item in data.items() if isinstance(data, dict) else ():
        yield from places_with_secret(item, place if name == "key" else f"{place}.{name}")


def test_SE_18_a_secret_is_replaced_in_each_text_of_an_answer_that_is_not_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hidden, "_values", {SECRET})
    kinds = kinds_of_answers()
    assert {"Survey", "JobNews", "ProofReport", "ConnectionAttempt", "ResumePoint", "EnvironmentFacts"} <= set(kinds)
    for name, kind in kinds.items():
        answer = answer_with_secrets(kind)
        kept = set(places_with_secret(encode(read_answer(kind, FakeHost(), answer))))
        assert kept <= set(names_in(kind)), name
        assert not {place.rpartition(".")[2] for place in names_in(kind)} & FREE_TEXTS, name


def answers_with_negative(kind: Any, answer: Any) -> Iterator[Any]:
    """Yield the answer once for each of its integers that are not `Signed`, with -1 in place of this integer."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if kind is int:
        yield -1
    elif origin in UNIONS:
        yield from answers_with_negative(next(arg for arg in args if arg is not type(None)), answer)
    elif origin is dict:
        yield from ({"key": one} for one in answers_with_negative(args[1], answer["key"]))
    elif origin in (tuple, list):
        kinds = [arg for arg in args if arg is not ...]
        for at, (inner, item) in enumerate(zip(kinds, answer, strict=True)):
            yield from ([*answer[:at], one, *answer[at + 1 :]] for one in answers_with_negative(inner, item))
    elif dataclasses.is_dataclass(kind):
        for name, hint in typing.get_type_hints(kind, include_extras=True).items():
            if name in answer:
                yield from ({**answer, name: one} for one in answers_with_negative(hint, answer[name]))


def test_BI_53_no_count_size_or_offset_of_an_answer_is_negative() -> None:
    refused = 0
    for name, kind in kinds_of_answers().items():
        for answer in answers_with_negative(kind, answer_with_secrets(kind)):
            with pytest.raises(Garbled, match="a negative number"):
                read_answer(kind, FakeHost(), answer)
            refused += 1
        assert name != "DataSurvey" or refused
    assert refused > 80


def test_an_integer_that_may_be_negative_is_signed() -> None:
    assert read_answer(tuple[Signed, int], FakeHost(), [-9, 0]) == (-9, 0)
    assert read_answer(dict[str, Signed | None], FakeHost(), {"exit": -9}) == {"exit": -9}
