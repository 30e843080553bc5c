"""Render a plan as text: unified diffs with the reason for each edit, then the changes on the host."""

from __future__ import annotations

import difflib

from fixers.frame.change import FileChange, HostChange, Plan, gather_reasons
from fixers.frame.diff_headers import header_name
from fixers.sources.commands import is_env_file
from remote.protocol.text import one_line

LARGEST_SHOWN_BYTES = 512 * 1024
"""Larger files get no diff: difflib needs minutes for a tokenizer.json with megabytes on one line."""

CONTEXT_LINES = 3
"""For `.env` files, only changed lines are shown, because the lines around them often contain tokens."""


def render_diff(plan: Plan) -> str:
    """Return the plan as text. The text is empty if the plan changes nothing. Bytes that are not UTF-8 are escaped."""
    return "".join(
        _render_file(change) if isinstance(change, FileChange) else _render_act(change) for change in plan.changes
    )


def _render_file(change: FileChange) -> str:
    reasons = "".join(f"# {one_line(reason)}\n" for reason in gather_reasons(change.why))
    if max(len(change.before), len(change.after)) > LARGEST_SHOWN_BYTES:
        sizes = f"{len(change.before)} bytes become {len(change.after)}"
        return f"{reasons}# {one_line(change.path)}: {sizes}, too many to show\n"
    before, after = _lines(change.before), _lines(change.after)
    context = 0 if is_env_file(change.path) else CONTEXT_LINES
    names = (header_name(f"a/{change.path}"), header_name(f"b/{change.path}"))
    diff = "".join(difflib.unified_diff(before, after, *names, n=context))
    return f"{reasons}{diff}"


def _lines(data: bytes) -> list[str]:
    text = data.decode("utf-8", "backslashreplace")
    lines = [line.replace("\r", "\\r") + "\n" for line in text.split("\n")]
    if text.endswith("\n"):
        return lines[:-1]
    return [*lines[:-1], f"{lines[-1]}\\ No newline at end of file\n"] if text else []


def _render_act(change: HostChange) -> str:
    undo = "" if change.undo else " (cannot be undone)"
    return f"# on the host: {one_line(change.summary)} ({change.fixer}){undo}\n"
