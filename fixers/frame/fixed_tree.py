"""A tree as it will be once planned rewrites are made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fixers.frame.change import FileChange, Plan
from fixers.frame.site import Tree


@dataclass(frozen=True)
class FixedTree:
    """`tree`, with other bytes at some of its paths."""

    tree: Tree
    rewritten: Mapping[str, bytes]

    def paths(self) -> Iterable[str]:
        return self.tree.paths()

    def read(self, path: str) -> bytes:
        return self.rewritten[path] if path in self.rewritten else self.tree.read(path)


def as_planned(tree: Tree, plan: Plan) -> FixedTree:
    """The tree after the plan's file changes."""
    return FixedTree(tree, {change.path: change.after for change in plan.changes if isinstance(change, FileChange)})
