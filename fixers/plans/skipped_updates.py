"""Find loops that skip the optimizer step if gradients are not finite, so that the loss scaler is not updated."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from fixers.plans.doubts import Doubt
from fixers.plans.owners import Owners
from fixers.plans.programs import Program
from fixers.sources.expressions import tail_of
from fixers.sources.syntax import parse_python

SKIPS = "{where} skips the step after gradients were unscaled, so that a loss scaler refuses to unscale the next ones"
NEEDLES = (b"isnan", b"isinf", b"isfinite")
FINITE = re.compile(r"isnan|isinf|isfinite")
UNSCALES = re.compile(r"clip_grad(?:_norm|_value)?_?|clip_gradients|unscale(?:_gradients)?_?")
SCALER = re.compile(r"scaler\w*$", re.IGNORECASE)
ENDS_UNSCALED = frozenset({"step", "update"})
BLOCKS = ("body", "orelse", "finalbody")


def of_skipped_updates(program: Program, owners: Owners, deepspeed_only: Collection[str]) -> Iterator[Doubt]:
    """Yield a doubt for each such loop that the program reaches. DeepSpeed's engine scales the loss in another way."""
    for path in sorted(program.paths.difference(deepspeed_only)):
        line = owners.facts.of(path, _line_of_skip) if path.endswith(".py") else 0
        if line and owners.reach.runs_line(program, path, line):
            where = f"{path}:{line}"
            yield Doubt(SKIPS.format(where=where), where)


def _line_of_skip(text: bytes) -> int:
    """Return the line of the first test for finite gradients that skips the step, or 0."""
    if not any(each in text for each in NEEDLES) or not (b"clip_grad" in text or b"unscale" in text):
        return 0
    with suppress(SyntaxError):
        return next((each.lineno for block in _blocks(parse_python(text)) if (each := _branch_that_skips(block))), 0)
    return 0


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield each block of statements, except a branch without a loss scaler if the other branch calls a scaler."""
    pending = [tree]
    while pending:
        node = pending.pop()
        sides = [side for side in (getattr(node, name, None) for name in BLOCKS) if isinstance(side, list)]
        if isinstance(node, ast.If) and any(map(_calls_scaler, sides)):
            sides = [side for side in sides if _calls_scaler(side)]
            pending += [each for side in sides for each in side]
        else:
            pending += ast.iter_child_nodes(node)
        yield from sides


def _calls_scaler(block: Iterable[ast.stmt]) -> bool:
    """Return True for a call such as `scaler.step(optimizer)`."""
    owners = (each.func.value for each in _calls(block) if isinstance(each.func, ast.Attribute))
    return any(SCALER.search(ast.unparse(owner)) for owner in owners)


def _branch_that_skips(block: list[ast.stmt]) -> ast.If | None:
    for at, each in enumerate(block):
        if isinstance(each, ast.If) and _tests_gradients(each, block[:at]) and _skips(each, block[at + 1 :]):
            return each
    return None


def _tests_gradients(branch: ast.If, before: Iterable[ast.stmt]) -> bool:
    """Return True if the branch tests for finite values after gradients were unscaled, and before the step."""
    if not FINITE.search(ast.unparse(branch.test)):
        return False
    names = [tail_of(each) for each in _calls(before)]
    unscaled = max((at for at, name in enumerate(names) if UNSCALES.fullmatch(name)), default=-1)
    return unscaled >= 0 and ENDS_UNSCALED.isdisjoint(names[unscaled:])


def _skips(branch: ast.If, after: Iterable[ast.stmt]) -> bool:
    """Return True if one side of the branch goes on to the next batch without a step, and the other side steps."""
    sides = [_ends(branch.body), _ends(branch.orelse)]
    if isinstance(branch.body[-1], ast.Continue):
        return not sides[0]
    return sides[0] and not sides[1] and not branch.orelse and not _ends(after)


def _ends(statements: Iterable[ast.stmt]) -> bool:
    """Return True if the statements make a step, or update the scaler."""
    return any(tail_of(each) in ENDS_UNSCALED for each in _calls(statements))


def _calls(statements: Iterable[ast.stmt]) -> Iterator[ast.Call]:
    """Yield the calls in the order of the code."""
    found = [each for one in statements for each in ast.walk(one) if isinstance(each, ast.Call)]
    yield from sorted(found, key=lambda each: (each.lineno, each.col_offset))
