"""Merge the changes that source fixers and setup fixers plan for the same file."""

from __future__ import annotations

from dataclasses import replace

from fixers.frame.change import FileChange, HostChange, Plan


def one_change_each(plan: Plan) -> Plan:
    """Merge changes of the same file: a setup fixer may change the output of source fixers."""
    changes: dict[str, FileChange | HostChange] = {}
    for at, change in enumerate(plan.changes):
        key = change.path if isinstance(change, FileChange) else f"{at} {change.op}"
        earlier = changes.get(key)
        changes[key] = _merged_change(earlier, change) if isinstance(earlier, FileChange) else change
    made = tuple(c for c in changes.values() if not isinstance(c, FileChange) or c.before != c.after)
    return replace(plan, changes=made)


def _merged_change(first: FileChange, second: FileChange | HostChange) -> FileChange:
    assert isinstance(second, FileChange)
    fixers, why = {**first.fixers, **second.fixers}, (*first.why, *second.why)
    return FileChange(first.path, first.before, second.after, fixers, why)
