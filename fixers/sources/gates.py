"""Find code that tests the card before it selects bfloat16."""

from __future__ import annotations

import ast
import re

from fixers.sources.python import PythonSource
from remote.policy.precision import BF16_FROM

CAPABLE = f".get_device_capability() >= {BF16_FROM}"
CARD_TEST = re.compile(
    r"is_bf16_supported|get_device_capability|get_device_properties|is_torch_bf16\w*available|is_bf16_available"
    r"|bf16_supported|supports?_bf16|supports?_bfloat16|bfloat16_supported|has_bf16|compute_cap|capability"
)
NAMES_BF16 = re.compile(r"bf16|bfloat16", re.IGNORECASE)
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def tests_card(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the expression tests the card, directly or through a name assigned in this file."""
    if CARD_TEST.search(source.segment(test)):
        return True
    wanted = {_tail(node) for node in ast.walk(test) if isinstance(node, (ast.Name, ast.Attribute))}
    return any(name in card_test_results(source) for name in wanted)


def card_test_results(source: PythonSource) -> frozenset[str]:
    """Return the names and attributes to which the file assigns the result of a card test."""
    return source.remember("results-of-card", lambda: _find_card_test_results(source))


def is_gated(source: PythonSource, node: ast.AST) -> bool:
    """Return True if the node runs only in a branch that depends on a card test."""
    names = source.names
    child = node
    for above in names.ancestors(node):
        if isinstance(above, (ast.If, ast.IfExp)) and child is not above.test and tests_card(source, above.test):
            return True
        if isinstance(above, ast.BoolOp) and any(tests_card(source, v) for v in above.values if v is not child):
            return True
        if isinstance(child, ast.stmt) and _has_earlier_exit(source, above, child):
            return True
        child = above
    return False


def names_bf16(source: PythonSource, test: ast.expr) -> bool:
    """Return True if the test compares a value with a name of bfloat16, as in `if precision == "bf16"`."""
    return any(
        isinstance(node, ast.Constant) and isinstance(node.value, str) and bool(NAMES_BF16.search(node.value))
        for node in ast.walk(test)
        if isinstance(source.names.parent(node), (ast.Compare, ast.Tuple, ast.List, ast.Set))
    )


def names_bf16_in_pattern(case: ast.match_case) -> bool:
    """Return True if the pattern names bfloat16, as in `case "bf16":`."""
    words = (node.value for node in ast.walk(case.pattern) if isinstance(node, ast.Constant))
    return any(isinstance(word, str) and NAMES_BF16.search(word) is not None for word in words)


def _has_earlier_exit(source: PythonSource, above: ast.AST, child: ast.stmt) -> bool:
    """Return True if an earlier statement of the block tests the card and returns, raises, continues or breaks."""
    for block in (getattr(above, name, None) for name in ("body", "orelse", "finalbody")):
        if not isinstance(block, list) or child not in block:
            continue
        for before in block[: block.index(child)]:
            if isinstance(before, ast.If) and isinstance(before.body[-1], LEAVES) and tests_card(source, before.test):
                return True
    return False


def _find_card_test_results(source: PythonSource) -> frozenset[str]:
    results: set[str] = set()
    for node in source.names.nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            if not CARD_TEST.search(source.segment(node.value)) or isinstance(node.value, ast.IfExp):
                continue
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                results |= {_tail(each) for each in ast.walk(target) if isinstance(each, (ast.Name, ast.Attribute))}
    results -= {"self", "args", "cfg", "config"}
    return frozenset(results | (_copies(source, results) if results else set()))


def _copies(source: PythonSource, results: set[str]) -> set[str]:
    """Return the names to which the file assigns one of the given names: `bf16_ready = verify_bfloat_support`."""
    found: set[str] = set()
    for node in source.names.of_type(ast.Assign):
        if isinstance(node.value, ast.Name) and node.value.id in results | found:
            found |= {each.id for each in node.targets if isinstance(each, ast.Name)}
    return found


def _tail(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr
