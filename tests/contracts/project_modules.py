"""Syntax trees of the project's modules: their imports, and the length of files and functions."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("pipeline", "fixers", "remote")


@dataclass(frozen=True)
class Import:
    """An import. `name` is the imported module, dotted; `inside` is the function that contains the import."""

    name: str
    line: int
    inside: bool
    typing_only: bool


@dataclass(frozen=True)
class Module:
    """One file of the project."""

    name: str
    path: Path
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, str(self.path))

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))


@cache
def modules() -> tuple[Module, ...]:
    """Return every Python file of the three packages."""
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found.append(Module(dotted.removesuffix(".__init__"), path, path.read_text()))
    return tuple(found)


def imports_of(module: Module) -> tuple[Import, ...]:
    """Return every import statement, with its function."""
    found: list[Import] = []
    _collect(module.tree.body, found, inside=False, typing_only=False)
    return tuple(found)


def _collect(body: list[ast.stmt], found: list[Import], *, inside: bool, typing_only: bool) -> None:
    for node in body:
        if isinstance(node, ast.Import):
            found += [Import(alias.name, node.lineno, inside, typing_only) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            found += [Import(f"{base}.{alias.name}", node.lineno, inside, typing_only) for alias in node.names]
        for field in ("body", "orelse", "finalbody"):
            inner = getattr(node, field, None)
            if isinstance(inner, list):
                deeper = inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
                types = typing_only or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
                _collect(inner, found, inside=deeper, typing_only=types)
        for handler in getattr(node, "handlers", []):
            _collect(handler.body, found, inside=inside, typing_only=typing_only)


@cache
def module_named(name: str) -> str | None:
    """Return the project's module that contains an imported name: `remote.host` for `remote.host.Host`."""
    known = {module.name for module in modules()}
    while name:
        if name in known:
            return name
        name = name.rpartition(".")[0]
    return None


@cache
def graph() -> dict[str, set[str]]:
    """Map each of the project's modules to the project's modules that it imports."""
    edges: dict[str, set[str]] = {}
    for module in modules():
        targets = (module_named(found.name) for found in imports_of(module))
        edges[module.name] = {target for target in targets if target and target != module.name}
    return edges
