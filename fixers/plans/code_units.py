"""Divide a module into units that run separately: its main code, functions, classes, methods and assigned names."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

from fixers.plans.composed_names import Composed, composed_in
from fixers.plans.neutral_changes import FUNCTIONS, WRAPS
from fixers.plans.uncalled import CALLED_BY_NAME, KINDS
from fixers.sources.child_nodes import FIELDS, child_nodes
from fixers.sources.expressions import tail_of
from remote.protocol.dataclass import dataclass

PLAIN = re.compile(
    r"\bdataclass|total_ordering|runtime_checkable|docstring|\bunique\b|\bproperty\b|\.setter\b|overload"
)
"""Matches decorators that neither register nor call a definition."""
REGISTERS = re.compile(r"register", re.IGNORECASE)
LOCATED = (ast.stmt, ast.expr, ast.keyword)
"""Nodes that have a place in the text."""
BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)
LOADS, CONFIG = "from_pretrained", "config_class"
"""A class of transformers creates its `config_class` if `from_pretrained` gets no config."""
NAME = re.compile(r"[A-Za-z_]\w*")
PART = "."
RUNNING = {kind: tuple(name for name in names if name != "returns") for kind, names in FIELDS.items()} | {ast.arg: ()}
"""The fields of each node type with code that runs: not the types of arguments and results."""


@dataclass(frozen=True, eq=False)
class Unit:
    """A part of a module. `name` is empty for the main code, and `owner` is the class of a method.

    `bases` are the names of the base classes of a class. `at_import`: the unit runs when the module is imported.
    `is_value`: the unit assigns a value to the name. `nodes` is the syntax tree, empty in a unit `without_tree`.
    """

    path: str
    name: str
    owner: str
    nodes: tuple[ast.AST, ...]
    text: bytes = b""
    bases: tuple[str, ...] = ()
    at_import: bool = False
    is_class: bool = False
    is_value: bool = False
    names: frozenset[str] | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return self.path, self.owner, self.name

    @cached_property
    def uses(self) -> frozenset[str]:
        """The names that the unit uses, in code and in strings. A dot precedes a name of which only a part is used."""
        return self.names if self.names is not None else frozenset(_uses(self.nodes))

    def contains(self, line: int) -> bool:
        """Return True if a node of the unit stands in this line, which is counted from 1."""
        spans = ((getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)) for node in self.nodes)
        return any(first <= line <= (last or first) for first, last in spans)

    def without_tree(self) -> Unit:
        """Return the unit with the names that it uses, but without its tree, which takes much more memory."""
        return replace(self, nodes=(), names=self.uses)

    @cached_property
    def composed(self) -> tuple[Composed, ...]:
        """Names that the unit composes of text and values."""
        return composed_in(self.text)


def units_of(path: str, tree: ast.Module, text: bytes, *, is_entry: bool) -> tuple[Unit, ...]:
    """Return the units of the module. The main block of a module belongs to the main code of the entry only.

    If the entry has no main block, all of its units may start.
    """
    guarded = any(_is_main(node) for node in tree.body)
    starts = CALLED_BY_NAME.search(text) is not None or b"__subclasses__" in text or (is_entry and not guarded)
    return tuple(_Units(path, text.splitlines(keepends=True), is_entry, starts).of_body(tree.body))


@dataclass(frozen=True)
class _Units:
    """Creates the units of one module. `starts`: every unit may start."""

    path: str
    lines: Sequence[bytes]
    is_entry: bool
    starts: bool

    def of_body(self, body: Iterable[ast.stmt]) -> Iterator[Unit]:
        for node in body:
            if isinstance(node, FUNCTIONS):
                yield self._of_function(node, "")
            elif isinstance(node, ast.ClassDef):
                yield from self._of_class(node)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                yield from self._renamed(node)
            elif _is_main(node) and not self.is_entry:
                continue
            elif isinstance(node, BLOCKS):
                yield self._unit("", "", tuple(_headers(node)), at_import=True)
                yield from self.of_body(_inner(node))
            else:
                names = () if self.starts else _assigned(node)
                yield from (replace(self._unit(name, "", (node,)), is_value=True) for name in names)
                if not names:
                    yield self._unit("", "", (node,), at_import=True)

    def _unit(self, name: str, owner: str, nodes: tuple[ast.AST, ...], *, at_import: bool = False) -> Unit:
        return Unit(self.path, name, owner, nodes, self._text(nodes), at_import=at_import)

    def _text(self, nodes: Iterable[ast.AST]) -> bytes:
        """Return the text of the nodes without the rest of their lines: a line may hold thousands of statements."""
        return b"\n".join(self._text_of(each) for each in nodes if isinstance(each, LOCATED))

    def _text_of(self, node: ast.stmt | ast.expr | ast.keyword) -> bytes:
        parts = (*getattr(node, "decorator_list", ()), node)
        first, start = min((each.lineno, each.col_offset) for each in parts)
        lines = [*self.lines[first - 1 : node.end_lineno]]
        lines[-1] = lines[-1][: node.end_col_offset]
        before = max(start - 1, 0)
        lines[0] = lines[0][before if lines[0][before:start] == b"@" else start :]
        return b"".join(lines)

    def _of_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef, owner: str) -> Unit:
        of_module = not owner and node.name.startswith("__")
        started = self.starts or of_module or _is_registered(node.decorator_list)
        return self._unit(node.name, owner, (node,), at_import=started)

    def _of_class(self, node: ast.ClassDef) -> Iterator[Unit]:
        own = [each for each in node.body if not isinstance(each, FUNCTIONS) and CONFIG not in _assigned(each)]
        header = (*node.decorator_list, *node.keywords, *own)
        text = self._text((*node.bases, *header))
        started = self.starts or _is_registered(node.decorator_list) or bool(node.keywords)
        bases = tuple(tail for tail in map(_tail, node.bases) if tail)
        yield Unit(self.path, node.name, "", header, text, bases, at_import=started, is_class=True)
        for each in node.body:
            if isinstance(each, FUNCTIONS):
                yield self._of_function(each, node.name)
            elif CONFIG in _assigned(each):
                yield self._unit(CONFIG, node.name, (each,))

    def _renamed(self, node: ast.Import | ast.ImportFrom) -> Iterator[Unit]:
        """Yield a unit for each new name of `import a as b`: a use of the new name is a use of the old one."""
        for alias in node.names:
            if alias.asname and alias.asname != alias.name:
                yield Unit(self.path, alias.asname, "", (ast.Name(alias.name.rpartition(".")[2]),))


def _is_registered(decorators: Sequence[ast.expr]) -> bool:
    """Return True if a decorator may register or call the definition."""
    texts = map(ast.unparse, decorators)
    return not all(WRAPS.search(each) or PLAIN.search(each) or each in KINDS for each in texts)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test)


def _headers(node: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a block statement, such as the test of an `if`."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.stmt | ast.ExceptHandler):
            yield child


def _inner(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler):
            yield from child.body


def _assigned(node: ast.stmt) -> Collection[str]:
    """Return the names to which the statement assigns a value that is used only by these names."""
    targets: Sequence[ast.expr] = ()
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AnnAssign):
        targets = (node.target,)
    names = [each.id for each in targets if isinstance(each, ast.Name)]
    if len(names) != len(targets) or any(REGISTERS.search(tail_of(each)) for each in _calls(node)):
        return ()
    return names


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (each for each in ast.walk(node) if isinstance(each, ast.Call))


def _tail(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _uses(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names in the code, without the types of arguments and results."""
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant):
            yield from _names_in(node.value)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            yield node.attr
            yield f"{PART}{node.value.id}"
        else:
            yield from _names_of(node)
            waiting += child_nodes(node, RUNNING[node.__class__])


def _names_in(value: object) -> Iterator[str]:
    """Yield the last part of a dotted name in a string."""
    if isinstance(value, str):
        name = value.rpartition(".")[2].rpartition(":")[2]
        if NAME.fullmatch(name):
            yield name


def _names_of(node: ast.AST) -> Iterator[str]:
    """Yield the names of the node itself, without those of its parts."""
    match node:
        case ast.Attribute(attr=name):
            yield name
        case ast.alias(name=name):
            yield name.rpartition(".")[2]
        case ast.Call() if _creates_config(node):
            yield CONFIG


def _creates_config(call: ast.Call) -> bool:
    """Return True if the call loads a model without a config, and the class may be one of the project."""
    if tail_of(call) != LOADS or not isinstance(call.func, ast.Attribute):
        return False
    loaded = _tail(call.func.value)
    return not loaded.startswith(("Auto", "Peft")) and not any(each.arg == "config" for each in call.keywords)
