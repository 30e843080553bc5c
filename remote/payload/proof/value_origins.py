"""Trace a dtype from the line that used it back to the only setting that contains it."""

from __future__ import annotations

import ast
import functools
import re
from typing import Dict, FrozenSet, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from remote.protocol.dataclass import dataclass

WORDS = {
    "bfloat16": {"bf16", "bfloat16", "bf16-mixed", "bf16-true", "bf16_mixed", "bf16_true"},
    "float16": {"fp16", "float16", "half", "16", "16-mixed", "16-true", "fp16-mixed", "fp16_mixed", "f16"},
}
TRUE = {"true", "yes", "on", "1"}
FALSE = {"false", "no", "off", "0"}
DEEPEST = 5
READERS = {"get", "pop", "getenv", "getattr", "get_config", "select"}
_PAIR = re.compile(r"""["']?([A-Za-z_][\w.\-]*)["']?\s*[:=]\s*["']?([\w.\-]+)""")


Assignments = Mapping[str, Sequence[Tuple[ast.expr, Optional[ast.expr]]]]


@dataclass(frozen=True)
class Use:
    """How a line chose a dtype.

    `keys` are the names of the settings that the line read. `literal` is the number of the line that contains the dtype
    itself, or 0.
    """

    keys: FrozenSet[str]
    literal: int = 0


@functools.cache
def follow_use(source: str, line: int, dtype: str) -> Optional[Use]:
    """Return how the statement at `line` chose `dtype`, or None if that cannot be traced.

    A name is traced to its only assignment in the file, or to the conditions of an if/elif chain that assigns it. The
    result is cached, because several checks need the origin of the same use.
    """
    statement = _statement(_statements(source), line)
    if statement is None:
        return None
    reader = _Reader(_assignments(source), dtype)
    for expression in _expressions(statement):
        reader.read(expression, DEEPEST)
    return None if reader.ambiguous else Use(frozenset(reader.keys), reader.literal)


@functools.cache
def _statements(source: str) -> Tuple[ast.stmt, ...]:
    """Return every statement of the source, in the order of `ast.walk`, or () if the source does not parse."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _statement(statements: Sequence[ast.stmt], line: int) -> Optional[ast.stmt]:
    """Return the innermost statement that covers the line, or None."""
    innermost = None
    for node in statements:
        covers = node.lineno <= line <= (node.end_lineno or node.lineno)
        if covers and (innermost is None or node.lineno >= innermost.lineno):
            innermost = node
    return innermost


def _expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the expressions of a statement, without the expressions of nested statements."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.withitem):
            yield child.context_expr


class _Reader:
    """Collects the names that an expression reads, and the line of a dtype that it contains."""

    def __init__(self, assignments: Assignments, dtype: str) -> None:
        self._assignments = assignments
        self._dtype = dtype
        self._words = WORDS[dtype]
        self._followed: Set[str] = set()
        self.keys: Set[str] = set()
        self.literal = 0
        self.ambiguous = False

    def read(self, node: ast.AST, depth: int) -> None:
        """Read an expression, and the assignments of the names in it up to this depth."""
        if isinstance(node, ast.IfExp) and _names_in(node.test):
            self._read_names(node.test, depth)
        elif isinstance(node, (ast.Compare, ast.Dict)):
            self._read_names(node, depth)
        elif self._is_literal(node):
            self.literal = self.literal or node.lineno  # type: ignore[attr-defined]
        else:
            key = _looked_up(node)
            self._note(node, key, depth)
            for child in ast.iter_child_nodes(node):
                if child is not key:
                    self.read(child, depth)

    def _read_names(self, node: ast.AST, depth: int) -> None:
        """Read the names in a table, comparison or condition.

        The dtypes in it are only candidates, so they are ignored.
        """
        for part in ast.walk(node):
            self._note(part, _looked_up(part), depth)

    def _note(self, node: ast.AST, key: Optional[ast.AST], depth: int) -> None:
        named = isinstance(node, (ast.Name, ast.Attribute))
        self.keys |= {normalized(name) for name in (_name_of(node) if named else "", _name_of(key)) if name}
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load) and depth:
            self._follow(_name_of(node), depth - 1)

    def _is_literal(self, node: ast.AST) -> bool:
        if isinstance(node, ast.keyword) and node.arg and normalized(node.arg) in self._words:
            return isinstance(node.value, ast.Constant) and node.value.value is True
        if isinstance(node, ast.Attribute):
            torch_name = isinstance(node.value, ast.Name) and node.value.id in ("torch", "th")
            return torch_name and (node.attr == self._dtype or (node.attr, self._dtype) == ("half", "float16"))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            return node.func.attr in (self._dtype, "half" if self._dtype == "float16" else self._dtype)
        return isinstance(node, ast.Constant) and isinstance(node.value, str) and normalized(node.value) in self._words

    def _follow(self, name: str, depth: int) -> None:
        if name in self._followed:
            return
        self._followed.add(name)
        assigned = self._assignments.get(name, ())
        if len(assigned) == 1:
            self.read(assigned[0][0], depth)
        elif assigned:
            tests = [test for _, test in assigned if test is not None]
            if len(tests) < len(assigned) - 1:
                self.ambiguous = True
            for test in tests:
                self._read_names(test, depth)


def _names_in(node: ast.AST) -> Set[str]:
    return {_name_of(part) for part in ast.walk(node)} - {""}


def _name_of(node: Optional[ast.AST]) -> str:
    """Return the last part of a name, or the text of a constant, or "" for anything else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and node.value.replace("-", "_").isidentifier() else ""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _looked_up(node: ast.AST) -> Optional[ast.AST]:
    """Return the key in `cfg["dtype"]`, `cfg.get("dtype")` or `getattr(cfg, "dtype")`.

    Return None for other expressions.
    """
    index: Optional[ast.AST] = node.slice if isinstance(node, ast.Subscript) else None
    if index is not None:
        return index if isinstance(index, ast.Constant) else None
    if isinstance(node, ast.Call) and node.args:
        called = _name_of(node.func)
        at = 1 if called == "getattr" and _name_of(node.args[0]) != "torch" else 0
        key = node.args[at] if called in READERS and len(node.args) > at else None
        return key if isinstance(key, ast.Constant) else None
    return None


@functools.cache
def _assignments(source: str) -> Assignments:
    """Return every value that the file assigns to each name or attribute, with the condition above it or None."""
    statements = _statements(source)
    branches = [node for node in statements if isinstance(node, ast.If)]
    tests = {id(child): node.test for node in branches for child in (*node.body, *node.orelse)}
    found: Dict[str, List[Tuple[ast.expr, Optional[ast.expr]]]] = {}
    for node in statements:
        if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for name in {_name_of(target) for target in targets if isinstance(target, (ast.Name, ast.Attribute))}:
            found.setdefault(name, []).append((node.value, tests.get(id(node))))
    return found


def normalized(word: str) -> str:
    """Normalise a key or value for comparison: the last part of a dotted name, lower case, with underscores."""
    return word.strip("-").lower().split("torch.")[-1].rsplit(".", 1)[-1].replace("-", "_")


def is_choice(key: str, value: str, keys: FrozenSet[str], dtype: str) -> bool:
    """Return True if `key: value` is one of these settings and selects the dtype."""
    name, names = normalized(key), {normalized(word) for word in WORDS[dtype]}
    if name not in keys:
        return False
    flag = any(part in names for part in (name, *name.split("_")) if not part.isdigit())
    return normalized(value) in names or (flag and value.lower() in TRUE)


def settings_with(texts: Mapping[str, str], keys: FrozenSet[str], dtype: str) -> List[str]:
    """Return `file:line` of every setting in these files that selects the dtype with one of these keys."""
    places = []
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            setting = line if path.endswith(".json") else re.split(r"(?:^|\s)[#;]", line)[0]
            pairs = _PAIR.findall(setting)
            places += [f"{path}:{number}" for key, value in pairs if is_choice(key, value, keys, dtype)]
    return places


def arguments_with(argv: Sequence[str], keys: FrozenSet[str], dtype: str) -> List[str]:
    """Return the arguments of a command line that select the dtype: `--dtype bf16`, `--bf16`, `train.dtype=bf16`."""
    arguments = []
    names = {normalized(word) for word in WORDS[dtype]}
    for at, word in enumerate(argv):
        key, given, value = word.partition("=")
        if not given and word.startswith("--"):
            following = argv[at + 1] if at + 1 < len(argv) else ""
            value = following if normalized(following) in names or following.lower() in TRUE | FALSE else "true"
        if (given or word.startswith("--")) and is_choice(key, value, keys, dtype):
            arguments.append(word if given or value == "true" else f"{word} {value}")
    return arguments
