"""Resolve expressions to qualified names through scopes, imports and aliases. Names bound twice are unknown."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TypeVar, cast

from fixers.sources.child_nodes import FIELDS, child_nodes
from remote.protocol.dataclass import dataclass, field

Node = TypeVar("Node", bound=ast.AST)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
ENCLOSING = (*FUNCTIONS, ast.Module)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
OPENS_SCOPE = frozenset({*FUNCTIONS, ast.ClassDef, *COMPREHENSIONS})
TORCH, EVERY = "torch", "*"
"""A module that imports every name (EVERY) of another one also has its `torch`."""
BINDS = frozenset(
    {ast.Import, ast.ImportFrom, ast.Name, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef}
    | {ast.ExceptHandler, ast.MatchAs, ast.MatchStar}
)


@dataclass
class Scope:
    """One namespace. A name is bound to a qualified name by an import, and to None by any other statement."""

    node: ast.AST
    parent: Scope | None
    bindings: dict[str, list[str | None]] = field(default_factory=dict)

    def bind(self, name: str, qualified: str | None) -> None:
        self.bindings.setdefault(name, []).append(qualified)


@dataclass(frozen=True)
class Rebound:
    """An imported name that is also assigned, so that its meaning is unknown."""

    qualified: str


class Names:
    """The parent, scope and meaning of every node, in file order."""

    def __init__(self, module: Scope) -> None:
        self.module = module
        self.nodes: list[ast.AST] = []
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {module.node: module}
        self.by_kind: defaultdict[type[ast.AST], list[ast.AST]] = defaultdict(list)

    def of_type(self, kind: type[Node]) -> tuple[Node, ...]:
        """Return all nodes of exactly this type, in file order."""
        return cast(tuple[Node, ...], tuple(self.by_kind.get(kind, ())))

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self.parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def meaning(self, node: ast.AST) -> str | None:
        """Return the qualified name (`torch.cuda.is_bf16_supported`) of an expression, or None if it is unknown."""
        found = self.look_up(node)
        return found if isinstance(found, str) else None

    def look_up(self, node: ast.AST) -> str | Rebound | None:
        """Like `meaning`, but returns Rebound for an imported name that is bound again."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return None
        found = self._look_up_name(node.id, self.scopes[node])
        tail = "".join(f".{attribute}" for attribute in reversed(attributes))
        if isinstance(found, Rebound):
            return Rebound(found.qualified + tail)
        return None if found is None else found + tail

    def statement(self, node: ast.AST) -> ast.stmt:
        """Return the innermost statement that contains the node."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def function(self, node: ast.AST) -> ast.AST:
        """Return the innermost function, lambda or module that contains the node."""
        for above in self.ancestors(node):
            if isinstance(above, ENCLOSING):
                return above
        return self.module.node

    def _look_up_name(self, name: str, scope: Scope) -> str | Rebound | None:
        shadowing = False
        here: Scope | None = scope
        while here is not None:
            bound = here.bindings.get(name)
            if bound is not None and (here is scope or not isinstance(here.node, ast.ClassDef)):
                imported = {each for each in bound if each is not None}
                if len(imported) == 1 and None not in bound and not shadowing:
                    return imported.pop()
                if imported:
                    return Rebound(sorted(imported)[0])
                shadowing = True
            here = here.parent
        return TORCH if name == TORCH and not shadowing and EVERY in self.module.bindings else None


def index_names(tree: ast.Module) -> Names:
    """Index the parents, scopes and bindings of all nodes in one walk."""
    names = Names(Scope(tree, None))
    nodes, by_kind, parents, scopes = names.nodes, names.by_kind, names.parents, names.scopes
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        kind = node.__class__
        nodes.append(node)
        by_kind[kind].append(node)
        children = child_nodes(node, FIELDS[kind]) if FIELDS[kind] else None
        if not children:
            continue
        if kind in OPENS_SCOPE:
            _open_scope(names, node, children)
        else:
            scope = scopes[node]
            for child in children:
                parents[child] = node
                scopes[child] = scope
                if child.__class__ in BINDS:
                    _bind(child, scope, node)
        children.reverse()
        stack += children
    return names


def _open_scope(names: Names, node: ast.AST, children: list[ast.AST]) -> None:
    """Index the children of a function, class or comprehension. Its arguments are bound in the new scope."""
    outer = names.scopes[node]
    inner = Scope(node, outer)
    within = _within(node, children)
    for child in children:
        names.parents[child] = node
        names.scopes[child] = scope = inner if id(child) in within else outer
        if child.__class__ in BINDS:
            _bind(child, scope, node)
    if isinstance(node, FUNCTIONS):
        _bind_arguments(node.args, inner)


def _within(node: ast.AST, children: list[ast.AST]) -> frozenset[int]:
    """Return the ids of the children that are evaluated in the node's scope. Defaults, decorators and bases are not."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return frozenset(id(child) for child in node.body)
        case ast.Lambda():
            return frozenset({id(node.body)})
    return frozenset(map(id, children))


def _bind_arguments(arguments: ast.arguments, scope: Scope) -> None:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for each in every:
        if each is not None:
            scope.bind(each.arg, None)


def _bind(node: ast.AST, scope: Scope, parent: ast.AST) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return
    match node:
        case ast.Import():
            for alias in node.names:
                qualified = alias.name if alias.asname else alias.name.partition(".")[0]
                scope.bind(alias.asname or qualified, qualified)
        case ast.ImportFrom():
            origin = "." * node.level + (node.module or "")
            for alias in node.names:
                scope.bind(alias.asname or alias.name, f"{origin}.{alias.name}")
        case ast.Name():
            if not _is_missing_import(parent):
                scope.bind(node.id, None)
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            scope.bind(node.name, None)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            scope.bind(name, None)


def _is_missing_import(parent: ast.AST) -> bool:
    """Return True for an assignment of None, as after `except ImportError`. The name still refers to the import."""
    return isinstance(parent, ast.Assign) and isinstance(parent.value, ast.Constant) and parent.value.value is None
