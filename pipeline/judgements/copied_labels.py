"""Find the lines that copy the input ids, with their padding, into the labels. Pure."""

from __future__ import annotations

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate

from fixers.frame.site import Tree
from fixers.sources.syntax import parse_python
from pipeline.judgements.calls import entry_of, last_name
from pipeline.judgements.started import files_reached
from remote.protocol.findings import Finding, Severity

CHECK = "labels-padding"
LABELS = "labels"
TOKENS = "input_ids"
IGNORED = 100
COPIES = frozenset({"array", "asarray", "clone", "contiguous", "copy", "deepcopy", "detach", "list", "stack", "tensor"})
MOST_PLACES = 3


def with_copied_labels(findings: tuple[Finding, ...], tree: Tree, argv: Sequence[str]) -> tuple[Finding, ...]:
    """Add to a finding of learnt padding the lines of the command's code that copy the input ids into the labels."""
    if not any(map(_is_placeless, findings)):
        return findings
    where = ", ".join(copied_labels(tree, argv)[:MOST_PLACES])
    return tuple(replace(one, where=where) if _is_placeless(one) else one for one in findings)


def _is_placeless(finding: Finding) -> bool:
    return finding.check == CHECK and finding.severity is not Severity.INFO and not finding.where


def copied_labels(tree: Tree, argv: Sequence[str]) -> list[str]:
    """Return the places as 'FILE:LINE'. Functions with -100, or a name such as IGNORE_INDEX, mask the padding."""
    found = []
    for path in sorted(files_reached(tree, argv)):
        data = tree.read(path) if path.endswith(".py") else b""
        if TOKENS.encode() in data and LABELS.encode() in data:
            try:
                module = parse_python(data)
            except (SyntaxError, ValueError, RecursionError):
                continue
            found += [f"{path}:{line}" for line in sorted(_lines(module))]
    return found


def _lines(module: ast.Module) -> Iterator[int]:
    nodes = list(ast.walk(module))
    masks = sorted(node.lineno for node in nodes if isinstance(node, ast.expr) and _is_ignored(node))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    masked = _Ranges((one.lineno, one.end_lineno or 0) for one in functions if _has_any(masks, one))
    for value in (value for node in nodes for value in _label_values(node)):
        if _is_copy(value) and value.lineno not in masked:
            yield value.lineno


def _has_any(lines: Sequence[int], function: ast.stmt) -> bool:
    """Return True if one of the sorted lines is in the function."""
    at = bisect_left(lines, function.lineno)
    return at < len(lines) and lines[at] <= (function.end_lineno or 0)


class _Ranges:
    """The lines from the first to the last line of several ranges, which may overlap."""

    def __init__(self, ranges: Iterable[tuple[int, int]]) -> None:
        ordered = sorted(ranges)
        self._first = [first for first, _ in ordered]
        self._last = list(accumulate((last for _, last in ordered), max))

    def __contains__(self, line: int) -> bool:
        at = bisect_right(self._first, line)
        return at > 0 and line <= self._last[at - 1]


def _is_ignored(node: ast.expr) -> bool:
    """Return True for the number 100, and for a name that suggests a label to ignore."""
    return "ignore" in _name_of(node).lower() or (isinstance(node, ast.Constant) and node.value == IGNORED)


def _label_values(node: ast.AST) -> Iterable[ast.expr]:
    """Return the expressions that the node makes the labels of a batch."""
    if isinstance(node, ast.Assign):
        return [node.value] if any(_name_of(target) == LABELS for target in node.targets) else []
    if isinstance(node, ast.Call):
        return [each.value for each in node.keywords if each.arg == LABELS]
    value = entry_of(node, LABELS)
    return [value] if value is not None else []


def _is_copy(value: ast.expr) -> bool:
    """Return True for the input ids, or a chain of calls that copy them."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if _name_of(one) == TOKENS:
            return True
        if isinstance(one, ast.Call) and last_name(one.func) in COPIES:
            waiting += [*one.args[:1], *([one.func.value] if isinstance(one.func, ast.Attribute) else [])]
        elif isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Slice):
            waiting.append(one.value)
    return False


def _name_of(node: ast.expr) -> str:
    """Return the name of a variable, attribute or key: `labels` for `batch["labels"]`, or ""."""
    match node:
        case ast.Name(id=called) | ast.Attribute(attr=called) | ast.Subscript(slice=ast.Constant(value=str(called))):
            return called
    return ""
