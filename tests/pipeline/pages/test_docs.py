"""The documentation covers every key, exit code, verb and finding, and nothing that does not exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from pipeline.cli.commands import VERBS
from pipeline.config.host_model import HostConfig
from pipeline.config.model import RunConfig
from pipeline.messages.errors import error_name
from pipeline.pages.find import all_names, page_of
from pipeline.pages.write import render_all
from remote.errors import HalfstepError
from remote.protocol.exits import ExitCode
from tests.contracts.project_modules import ROOT, modules

DOCS = ROOT / "docs"


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = next(
            (
                t
                for t in (field.annotation, *getattr(field.annotation, "__args__", ()))
                if isinstance(t, type) and issubclass(t, BaseModel)
            ),
            None,
        )
        if inner is not None and inner.model_fields:
            yield from keys(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


@pytest.mark.parametrize("key", [*keys(HostConfig), *keys(RunConfig)])
def test_every_config_key_is_documented(key: str) -> None:
    text = (DOCS / "configuration.md").read_text()
    last = key.rpartition(".")[2]
    assert f"`{key}`" in text or f"`.{last}`" in text or f"`{last}`" in text or f"`{key}." in text, key


@pytest.mark.parametrize("code", list(ExitCode))
def test_every_exit_code_is_documented(code: ExitCode) -> None:
    assert re.search(rf"^\| {int(code)} \|", (DOCS / "exit-codes.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_is_documented(verb: str) -> None:
    assert f"pipeline {verb}" in (DOCS / "verbs.md").read_text()


def finding_names() -> set[str]:
    """Return the literal names that findings are made with."""
    found: set[str] = set()
    for module in modules():
        for node in ast.walk(module.tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "Finding"
                and node.args
            ):
                first = node.args[0]
                if isinstance(first, ast.Constant) and isinstance(first.value, str):
                    found.add(first.value)
    return found


def test_every_finding_has_a_page() -> None:
    names = finding_names()
    assert names
    assert [name for name in sorted(names) if len(page_of(name)) <= 40] == []


def error_names(kind: type[HalfstepError] = HalfstepError) -> Iterator[str]:
    for below in kind.__subclasses__():
        yield error_name(below)
        yield from error_names(below)


@pytest.mark.parametrize("name", sorted(error_names()))
def test_every_error_has_a_page(name: str) -> None:
    assert len(page_of(name)) > 40


def test_every_error_that_is_raised_has_a_unique_name() -> None:
    bare = [
        f"{module.where}:{node.lineno}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "HalfstepError"
    ]
    assert bare == [], "`pipeline explain halfstep-error` knows no page"


@pytest.mark.parametrize(("kind", "name"), sorted(all_names()))
def test_every_name_that_is_listed_has_its_page(kind: str, name: str) -> None:
    page = page_of(name)
    assert page.startswith(f"# {name}\n"), kind
    assert len(page.splitlines()) > 1


@pytest.mark.parametrize("name", sorted(render_all()))
def test_each_generated_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text() == render_all()[name], "make docs"
