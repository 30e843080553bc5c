"""Find names, arguments and hooks of libraries that the installed versions lack, before the script fails on them. Pure.

Code in `try`, or in a condition on a version, is left out: it usually handles several versions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cache

from fixers.frame.site import Tree
from fixers.frame.text_files import read_text_file
from fixers.sources.python import PythonSource, read_python
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
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Report
from remote.protocol.text import version_numbers

NAME, LIGHTNING = "api-removed-name", "api-lightning"
TRAINER = re.compile(r"(?:pytorch_lightning|lightning(?:\.pytorch)?)\.(?:trainer\.){0,2}Trainer$")
MODULE = re.compile(
    r"(?:pytorch_lightning|lightning(?:\.pytorch)?)\.(?:core\.)?(?:lightning\.|module\.)?LightningModule$"
)
LIBRARIES = ("transformers", "datasets", "peft", "accelerate", "trl", "pytorch_lightning", "lightning")
NEEDLES = tuple(library.encode() for library in LIBRARIES)
GUARD = re.compile(r"version|TYPE_CHECKING|hasattr|available", re.IGNORECASE)
DEFINITION = re.compile(
    rb"\bdef[ \t]+(%(any)s)[ \t]*\(|[.\n][ \t]*(%(any)s)[ \t]*=(?!=)" % {b"any": "|".join(METHODS).encode()}
)
"""Matches a method of the project that has the name of a removed one, also one that is assigned to a class."""


@dataclass(frozen=True)
class _Place:
    """A use of a removed name: the node, what is missing, what to write instead, and the check."""

    node: ast.expr | ast.stmt | ast.alias | ast.keyword
    message: str
    instead: str
    check: str = NAME


def judge_removed(tree: Tree, paths: Iterable[str], packages: Mapping[str, str]) -> Report:
    """Return a warning for each use of a name that the installed version of its package lacks.

    `paths`: the files that the command uses. `packages`: the versions by package; a package without a version is not
    judged.
    """
    own = {part.removesuffix(".py") for path in tree.paths() for part in path.split("/")}
    defined = cache(lambda: _methods_defined(tree))
    findings: list[Finding] = []
    for path in sorted(paths):
        data = tree.read(path) if path.endswith(".py") else b""
        if not any(needle in data for needle in NEEDLES):
            continue
        try:
            source = read_python(path, data)
        except Unparsable:
            continue
        findings += _judge(source, packages, own, defined)
    return Report(tuple(findings))


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


def _judge(
    source: PythonSource, packages: Mapping[str, str], own: Collection[str], defined: Callable[[], Container[str]]
) -> Iterator[Finding]:
    seen: set[tuple[str, str]] = set()
    for place in _places(source, packages, own, defined):
        key = (place.message, place.instead)
        if key not in seen and not is_guarded(source, place.node):
            seen.add(key)
            yield Finding.warning(place.check, place.message, source.where(place.node), place.instead)


def _places(
    source: PythonSource, packages: Mapping[str, str], own: Collection[str], defined: Callable[[], Container[str]]
) -> Iterator[_Place]:
    uses: list[tuple[ast.alias | ast.Attribute, str]] = [*_imports(source), *_attributes(source)]
    for node, qualified in uses:
        gone = find_gone(qualified)
        if gone is not None and qualified.partition(".")[0] not in own:
            yield from _if_lacking(node, qualified, gone, packages)
    if "pytorch_lightning" not in own and "lightning" not in own:
        yield from _of_lightning(source, packages)
    yield from _methods(source, packages, defined)


def _imports(source: PythonSource) -> Iterator[tuple[ast.alias, str]]:
    for node in source.names.of_type(ast.ImportFrom):
        if node.level == 0 and node.module:
            yield from ((alias, f"{node.module}.{alias.name}") for alias in node.names)
    for each in source.names.of_type(ast.Import):
        yield from ((alias, alias.name) for alias in each.names)


def _attributes(source: PythonSource) -> Iterator[tuple[ast.Attribute, str]]:
    for node in source.names.of_type(ast.Attribute):
        if qualified := source.names.meaning(node):
            yield node, qualified


def _if_lacking(
    node: ast.alias | ast.Attribute, qualified: str, gone: Gone, packages: Mapping[str, str]
) -> Iterator[_Place]:
    installed = _installed(gone, packages, qualified)
    if installed:
        root, _, rest = qualified.partition(".")
        yield _Place(node, f"{root} {installed} has no {rest}", gone.instead)


def _installed(gone: Gone, packages: Mapping[str, str], qualified: str = "") -> str:
    """Return the installed version if it lacks the name, else ""."""
    package = "lightning" if qualified.startswith("lightning.") else gone.package
    installed = packages.get(package, "")
    return installed if installed and version_numbers(installed) >= gone.since else ""


def _methods(
    source: PythonSource, packages: Mapping[str, str], defined: Callable[[], Container[str]]
) -> Iterator[_Place]:
    """Yield calls of removed methods, unless the project defines a method of this name."""
    for call in source.names.of_type(ast.Call):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        gone = METHODS.get(name)
        if gone is not None and (installed := _installed(gone, packages)) and name not in defined():
            yield _Place(call, f"classes of transformers {installed} have no {name}()", gone.instead)


def _of_lightning(source: PythonSource, packages: Mapping[str, str]) -> Iterator[_Place]:
    for call in source.names.of_type(ast.Call):
        made = source.names.meaning(call.func) or ""
        if TRAINER.match(made) and (installed := _lightning_2(made, packages)):
            yield from _arguments(source, call, installed)
    for each in source.names.of_type(ast.ClassDef):
        base = next(filter(MODULE.match, (source.names.meaning(base) or "" for base in each.bases)), "")
        installed = _lightning_2(base, packages)
        for node in each.body if installed else ():
            if isinstance(node, ast.FunctionDef) and node.name in HOOKS:
                message = f"Lightning {installed} rejects modules with {node.name}()"
                yield _Place(node, message, IN_HOOK.format(HOOKS[node.name]), LIGHTNING)


def _lightning_2(qualified: str, packages: Mapping[str, str]) -> str:
    return _installed(Gone("pytorch-lightning", (2,), ""), packages, qualified) if qualified else ""


def _arguments(source: PythonSource, call: ast.Call, installed: str) -> Iterator[_Place]:
    for keyword in call.keywords:
        name = keyword.arg or ""
        rejects = f"Trainer of Lightning {installed} rejects {name}"
        if name in TRAINER_ARGUMENTS:
            yield _Place(keyword, rejects, instead_of_argument(name, source.segment(keyword.value)), LIGHTNING)
        elif isinstance(keyword.value, ast.Constant) and keyword.value.value in _rejected_values(name):
            strategy = str(keyword.value.value)
            yield _Place(keyword, f'{rejects}="{strategy}"', strategy_instead_of(strategy), LIGHTNING)


def _rejected_values(name: str) -> Iterable[object]:
    return {"accelerator": STRATEGIES, "strategy": REMOVED_STRATEGIES}.get(name, ())


def is_guarded(source: PythonSource, node: ast.AST) -> bool:
    """Return True in `try`, and in a condition that seems to distinguish versions."""
    for above in source.names.ancestors(node):
        if isinstance(above, ast.Try) and above.handlers:
            return True
        if isinstance(above, ast.If) and GUARD.search(source.segment(above.test)):
            return True
    return False
