"""The child nodes of a syntax tree's nodes, found faster than by `ast.iter_child_nodes`."""

from __future__ import annotations

import ast

LEAVES = (ast.Name, ast.Constant, ast.alias)
NO_NODES = frozenset({"ctx", "op", "ops", "id", "attr", "level", "module", "type_comment"}) | frozenset(
    {"arg", "conversion", "simple", "is_async", "type_ignores", "rest", "kwd_attrs"}
)
"""Fields without child nodes, and fields with contexts or operators: the parser shares these objects between nodes."""
KINDS = [kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)]
FIELDS = {
    kind: () if issubclass(kind, LEAVES) else tuple(name for name in kind._fields if name not in NO_NODES)
    for kind in KINDS
}
"""The fields of each node type that can contain nodes."""


def child_nodes(node: ast.AST, fields: tuple[str, ...]) -> list[ast.AST]:
    """Return the child nodes in these fields, in their order, without contexts and operators."""
    children: list[ast.AST] = []
    for name in fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            children += [each for each in value if each.__class__ in FIELDS]
        elif value.__class__ in FIELDS:
            children.append(value)
    return children
