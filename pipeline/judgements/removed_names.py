"""Find names, arguments and hooks of libraries that the installed versions lack. Pure."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cache

from fixers.frame.site import Tree
from fixers.frame.text_files import read_text_file
from fixers.sources.python import PythonSource
from fixers.sources.removed_names import (
    HOOKS,
    IN_HOOK,
    METHODS,
    REMOVED_STRATEGIES,
    STRATEGIES,
    TRAINER_ARGUMENTS,
    Gone,
    find_gone,
    instead_of_argument,
    strategy_instead_of,
)
from pipeline.judgements.old_uses import OldUse, Project, judge_uses, project_of, sources_with
from remote.protocol.findings import Report

LIGHTNING = "api-lightning"
TRAINER = re.compile(r"(?:pytorch_lightning|lightning(?:\.pytorch)?)\.(?:trainer\.){0,2}Trainer$")
MODULE = re.compile(
    r"(?:pytorch_lightning|lightning(?:\.pytorch)?)\.(?:core\.)?(?:lightning\.|module\.)?LightningModule$"
)
LIBRARIES = ("transformers", "datasets", "peft", "accelerate", "trl", "pytorch_lightning", "lightning")
NEEDLES = tuple(library.encode() for library in LIBRARIES)
DEFINITION = re.compile(
    rb"\bdef[ \t]+(%(any)s)[ \t]*\(|[.\n][ \t]*(%(any)s)[ \t]*=(?!=)" % {b"any": "|".join(METHODS).encode()}
)
"""Matches a method of the project that has the name of a removed one, also one that is assigned to a class."""


def judge_removed(tree: Tree, paths: Iterable[str], packages: Mapping[str, str]) -> Report:
    """Return a warning for each use of a name that the installed version of its package lacks.

    `paths`: the files that the command uses. `packages`: the versions by package.
    """
    project, defined = project_of(tree, packages), cache(lambda: _methods_defined(tree))
    return judge_uses(sources_with(NEEDLES, tree, paths), lambda source: _uses(source, project, defined))


def _methods_defined(tree: Tree) -> frozenset[str]:
    """Return the names of removed methods that a class of the project defines."""
    return frozenset(name for path in tree.paths() if path.endswith(".py") for name in _defined_in(tree, path))


def _defined_in(tree: Tree, path: str) -> Iterator[str]:
    try:
        data = read_text_file(tree, path)
    except OSError:  # too large to be analysed
        return
    for by_def, by_assignment in DEFINITION.findall(data):
        yield (by_def or by_assignment).decode()


def _uses(source: PythonSource, project: Project, defined: Callable[[], Container[str]]) -> Iterator[OldUse]:
    for node, qualified in _names(source):
        root, _, rest = qualified.partition(".")
        gone = find_gone(qualified)
        if gone is not None and root not in project.own and (installed := _installed(gone, project, qualified)):
            yield OldUse(node, f"{root} {installed} has no {rest}", gone.instead)
    if "pytorch_lightning" not in project.own and "lightning" not in project.own:
        yield from _of_lightning(source, project)
    yield from _methods(source, project, defined)


def _names(source: PythonSource) -> Iterator[tuple[ast.alias | ast.Attribute, str]]:
    """Yield each import and each attribute with its qualified name."""
    for node in source.names.of_type(ast.ImportFrom):
        if node.level == 0 and node.module:
            yield from ((alias, f"{node.module}.{alias.name}") for alias in node.names)
    for each in source.names.of_type(ast.Import):
        yield from ((alias, alias.name) for alias in each.names)
    for attribute in source.names.of_type(ast.Attribute):
        if qualified := source.names.meaning(attribute):
            yield attribute, qualified


def _installed(gone: Gone, project: Project, qualified: str = "") -> str:
    """Return the installed version if it lacks the name, else ""."""
    return project.lacks("lightning" if qualified.startswith("lightning.") else gone.package, gone.since)


def _methods(source: PythonSource, project: Project, defined: Callable[[], Container[str]]) -> Iterator[OldUse]:
    """Yield calls of removed methods, unless the project defines a method of this name."""
    for call in source.names.of_type(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        gone = METHODS.get(name)
        if gone is not None and (installed := _installed(gone, project)) and name not in defined():
            yield OldUse(call, f"classes of transformers {installed} have no {name}()", gone.instead)


def _of_lightning(source: PythonSource, project: Project) -> Iterator[OldUse]:
    for call in source.names.of_type(ast.Call):
        made = source.names.meaning(call.func) or ""
        if TRAINER.match(made) and (installed := _lightning_2(made, project)):
            yield from _arguments(source, call, installed)
    for each in source.names.of_type(ast.ClassDef):
        base = next(filter(MODULE.match, (source.names.meaning(base) or "" for base in each.bases)), "")
        installed = _lightning_2(base, project)
        for node in each.body if installed else ():
            if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
                message = f"Lightning {installed} rejects modules with {node.name}()"
                yield OldUse(node, message, IN_HOOK.format(HOOKS[node.name]), LIGHTNING)


def _lightning_2(qualified: str, project: Project) -> str:
    return _installed(Gone("pytorch-lightning", (2,), ""), project, qualified) if qualified else ""


def _arguments(source: PythonSource, call: ast.Call, installed: str) -> Iterator[OldUse]:
    for keyword in call.keywords:
        name = keyword.arg or ""
        rejects = f"Trainer of Lightning {installed} rejects {name}"
        if name in TRAINER_ARGUMENTS:
            yield OldUse(keyword, rejects, instead_of_argument(name, source.segment(keyword.value)), LIGHTNING)
        elif isinstance(keyword.value, ast.Constant) and keyword.value.value in _rejected_values(name):
            strategy = str(keyword.value.value)
            yield OldUse(keyword, f'{rejects}="{strategy}"', strategy_instead_of(strategy), LIGHTNING)


def _rejected_values(name: str) -> Iterable[object]:
    return {"accelerator": STRATEGIES, "strategy": REMOVED_STRATEGIES}.get(name, ())
