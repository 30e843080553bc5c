"""Find the path literals that a Python file may open. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator

from pipeline.judgements.calls import last_name
from pipeline.judgements.path_text import path_in
from remote.protocol.dataclass import dataclass

GUARDS = frozenset({"exists", "isfile", "isdir", "is_file", "is_dir", "access", "lexists"})
NOT_OPENED = frozenset(
    {
        "print",
        "startswith",
        "endswith",
        "replace",
        "removeprefix",
        "removesuffix",
        "split",
        "compile",
        "match",
        "fullmatch",
        "search",
        "sub",
        "findall",
        "route",
        "post",
        "put",
        "warn",
        "warning",
        "info",
        "debug",
        "error",
        "exception",
        "critical",
    }
)
PROSE = frozenset({"help", "description", "epilog", "usage", "metavar"})
EXITS = frozenset({"exit", "_exit", "quit"})
PLATFORM = frozenset({"platform", "system", "uname", "gethostname", "node"})
JOINS = frozenset({"join", "Path", "PurePath", "PosixPath", "expanduser", "abspath", "realpath", "resolve", "str"})


@dataclass(frozen=True)
class StartSettings:
    """The options (`--data_dir` as `data_dir`) and environment variables that the start command sets."""

    options: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()


class PathReader(ast.NodeVisitor):
    """Collects path literals, except in prose, comparisons, existence tests and defaults that the command overrides.

    `recognise` returns the path in a text, or "".
    """

    def __init__(self, tree: ast.Module, settings: StartSettings, recognise: Callable[[str], str] = path_in) -> None:
        self.settings = settings
        self.recognise = recognise
        self.found: list[tuple[ast.expr, str]] = []
        self.assigned: dict[str, list[ast.expr]] = {}
        self.defaults: dict[str, ast.expr] = {}
        self.loads: Counter[str] = Counter()
        self.looked_for = {word for node in _nodes_in_guards(tree) for word in (*_name_of(node), *self._text_of(node))}
        optional = _nodes_in_optional_guards(tree) if self.looked_for else ()
        self.guarded = {name for node in optional for name in _name_of(node)}

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.expr) and (path := self.recognise(literal_of(node))):
            self.found.append((node, path))
            return
        super().visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self.loads[node.id] += 1

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.loads[use_key(node)] += 1
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        """Skip comparisons, because compared paths are not opened."""

    def visit_Raise(self, node: ast.Raise) -> None:
        """Skip error messages."""

    def visit_If(self, node: ast.If) -> None:
        if not PLATFORM & set(names_in(node.test)):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        for name in names:
            self.assigned.setdefault(name, []).append(node.value)
        if not self.guarded & set(names):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if node.value is not None and name not in self.guarded and name not in self.settings.options:
            self.assigned.setdefault(name, []).append(node.value)
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        name = last_name(node.func)
        if name in GUARDS or name in NOT_OPENED or self._is_overridden(node, name):
            return
        for keyword in node.keywords:
            if keyword.arg == "default" and (option := _option_of(node)):
                self.defaults[option] = keyword.value
            if keyword.arg not in PROSE:
                self.visit(keyword.value)
        for child in (node.func, *node.args):
            self.visit(child)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Skip the alternatives of a variable that is set, as in `os.environ.get("DATA") or "../data"`."""
        first = node.values[0]
        if not (isinstance(first, ast.Call) and self._is_overridden(first, last_name(first.func))):
            self.generic_visit(node)

    def _text_of(self, node: ast.AST) -> tuple[str, ...]:
        return (self.recognise(literal_of(node)),) if isinstance(node, ast.expr) else ()

    def _is_overridden(self, node: ast.Call, name: str) -> bool:
        if name in ("get", "getenv", "setdefault", "pop") and node.args:
            first = node.args[0]
            return isinstance(first, ast.Constant) and first.value in self.settings.environment
        return _option_of(node) in self.settings.options


def use_key(node: ast.expr) -> str:
    """Return the key for counting uses of a name or attribute (`.data` for `args.data`), or "" for other nodes."""
    if isinstance(node, ast.Attribute):
        return f".{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def literal_of(node: ast.expr) -> str:
    """Return the constant text at the start of a literal, f-string, concatenation or joined path, or ""."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        first = node.values[0] if node.values else None
        text = literal_of(first) if isinstance(first, ast.Constant) else ""
        return text if len(node.values) == 1 else text.rpartition("/")[0]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Add):
        left, right = literal_of(node.left), literal_of(node.right)
        whole = isinstance(node.left, ast.Constant | ast.Call | ast.BinOp)
        return left and (f"{left.rstrip('/')}/{right.lstrip('/')}" if right and whole else left)
    if isinstance(node, ast.Call) and last_name(node.func) in JOINS:
        return _joined(node)
    return ""


def _joined(node: ast.Call) -> str:
    owner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None
    parts: list[str] = []
    for argument in (owner, *node.args):
        if argument is None:
            continue
        text = literal_of(argument)
        if not text:
            break
        parts.append(text if not parts else text.strip("/"))
    return "/".join(part.rstrip("/") for part in parts)


def _option_of(node: ast.Call) -> str:
    """Return `data_dir` for add_argument("--data-dir", ...), or "" if the call declares no option."""
    words = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    names = [word for word in words if isinstance(word, str) and word.startswith("--")]
    return option_name(names[0]) if names else ""


def option_name(word: str) -> str:
    """Return `data_dir` for `--data-dir=x`."""
    return word.lstrip("-").partition("=")[0].replace("-", "_")


def names_in(node: ast.AST) -> Iterator[str]:
    return (name for one in ast.walk(node) for name in _name_of(one))


def _name_of(node: ast.AST) -> tuple[str, ...]:
    """Return the name of a variable or attribute, or nothing for other nodes."""
    if isinstance(node, ast.Name):
        return (node.id,)
    return (node.attr,) if isinstance(node, ast.Attribute) else ()


def _nodes_in_guards(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield each node in an existence test (`os.path.exists`) once: tests may be nested deeply."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, inside = waiting.pop()
        inside = inside or _is_call(node, GUARDS)
        if inside:
            yield node
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]


def _nodes_in_optional_guards(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield each node in an existence test after which the script continues even if the file is missing, once."""
    ending = _nodes_that_end(tree)
    waiting: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while waiting:
        node, tested, inside = waiting.pop()
        inside = inside or (tested and _is_call(node, GUARDS))
        if inside:
            yield node
        test = node.test if isinstance(node, ast.If | ast.IfExp) and id(node) not in ending else None
        waiting += [(child, tested or child is test, inside) for child in ast.iter_child_nodes(node)]


def _nodes_that_end(tree: ast.Module) -> set[int]:
    """Return the identities of all nodes that contain an exit or a `raise`."""
    found: set[int] = set()
    for node in reversed(list(ast.walk(tree))):  # every node comes after its children
        if (
            isinstance(node, ast.Raise)
            or _is_call(node, EXITS)
            or any(id(child) in found for child in ast.iter_child_nodes(node))
        ):
            found.add(id(node))
    return found


def _is_call(node: ast.AST, names: frozenset[str]) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in names


def calls_of(tree: ast.AST, names: frozenset[str]) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call) and last_name(node.func) in names)
