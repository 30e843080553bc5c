"""A tree with planned rewrites applied in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fixers.frame.change import FileChange, Plan
from fixers.frame.site import Tree
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True)
class FixedTree:
    """The tree `tree` with new content for the paths in `rewritten`."""

    tree: Tree
    rewritten: Mapping[str, bytes]

    def paths(self) -> Iterable[str]:
        return self.tree.paths()

    def read(self, path: str) -> bytes:
        return self.rewritten[path] if path in self.rewritten else self.tree.read(path)


def as_planned(tree: Tree, plan: Plan) -> FixedTree:
    """Return the tree with the plan's file changes applied."""
    return FixedTree(tree, {change.path: change.after for change in plan.changes if isinstance(change, FileChange)})
