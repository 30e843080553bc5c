"""Find the Python files that start training, and the command that runs each of them. Pure."""

from __future__ import annotations

import ast
import contextlib
import posixpath
import re
from collections.abc import Collection, Iterator

from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

TRAINING_FILE_NAME = re.compile(r"train|fine_?-?tun", re.IGNORECASE)
TRAINS = re.compile(r"^(run_?|do_?|pre_?)*(train|fine_?tune)(?!_?(test|val|load|data|set|dl))")
MAIN = "__main__.py"
OPTIMIZER = re.compile(r"opt|scaler", re.IGNORECASE)
TRAINING_TEXTS = (b"Trainer(", b"optimizer.step(", b"Accelerator(", b"scaler.step(", b".backward(")
TRAINING_WORDS = (b"train", b"tune", b"Trainer", b"fit", b"backward", b"step")
"""Without any of these texts, and without a name such as `train.py`, a file is no candidate."""
LARGEST_BYTES = 512 * 2**10
"""Larger files are data, and are searched as text: a syntax tree needs up to 600 times the memory of its source."""
INPUT_FUNCTIONS = ("input", "raw_input")
INPUT_METHODS = {"getpass": "getpass", "click": "prompt", "typer": "prompt", "Prompt": "ask", "questionary": "text"}


@dataclass(frozen=True)
class Candidate:
    """A file that may start the training.

    Files with a higher `score` are more likely to start it. `module`: the file has relative imports or is a
    `__main__.py`, so it must be started with `python -m`. `imports` are the top-level modules that it imports.
    `interactive`: the script waits for keyboard input.
    """

    path: str
    score: int
    module: bool = False
    imports: frozenset[str] = frozenset()
    interactive: bool = False


def judge_script(path: str, data: bytes) -> Candidate | None:
    """Return the file as a candidate, or None if it does not train.

    Invalid Python and large files are searched as text.
    """
    named = TRAINING_FILE_NAME.search(posixpath.basename(path)) is not None and bool(data.strip())
    if not (named or any(word in data for word in TRAINING_WORDS)):
        return None
    tree = _parsed(data)
    if tree is None:
        score = sum(word in data for word in TRAINING_TEXTS) + 2 * named
        return Candidate(path, score, interactive=b"input(" in data) if score > 1 else None
    trainers = frozenset(_trainers(tree))
    kinds = sum({_training_call_kind(node, trainers) for node in ast.walk(tree)})
    if not (kinds or named) or not _runs_code(tree, trainers):
        return None
    module = any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(tree))
    module = module or posixpath.basename(path) == MAIN
    score = kinds + 2 * named + (b"__main__" in data)
    return Candidate(path, score, module, frozenset(_imports(tree)), _is_interactive(tree))


def _parsed(data: bytes) -> ast.Module | None:
    """Return the syntax tree, or None for a large file and invalid Python."""
    with contextlib.suppress(SyntaxError, ValueError):
        return parse_python(data) if len(data) <= LARGEST_BYTES else None
    return None


def module_of(script: Candidate, packages: Collection[str]) -> tuple[str, str] | None:
    """Return the module's name and the folder from which Python must import it, or None for a script.

    `packages` are the folders with an `__init__.py`. A file that imports its own package is a module, too.
    """
    *folders, last = script.path.removesuffix(".py").split("/")
    first = len(folders)
    while first and "/".join(folders[:first]) in packages:
        first -= 1
    own = [index for index in range(first, len(folders)) if folders[index] in script.imports]
    if not script.module and not own:
        return None
    if own:
        first = own[0]
    elif first == len(folders):
        first = 0
    name = [*folders[first:], last]
    return ".".join(name[:-1] if f"{last}.py" == MAIN else name), "/".join(folders[:first])


def _imports(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level module of each absolute import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _trainers(tree: ast.Module) -> Iterator[str]:
    """Yield the names, such as `t` and `self.t`, to which the file assigns the result of a call of `*Trainer*`."""
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names]
    renamed = {alias.asname for alias in imports if alias.asname and "trainer" in alias.name.lower()}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) or not isinstance(node.value, ast.Call):
            continue
        called = _name(node.value.func)
        if "trainer" in called.rpartition(".")[2].lower() or called in renamed:
            yield from filter(None, map(_name, node.targets if isinstance(node, ast.Assign) else [node.target]))


def _name(node: ast.expr) -> str:
    """Return the dotted name of an expression, without arguments and indices other than strings.

    `ast.unparse` would render a literal at the start of a chain of calls once for each call.
    """
    parts = []
    while isinstance(node, ast.Attribute | ast.Call | ast.Subscript):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            parts.append(str(node.slice.value))
        elif isinstance(node, ast.Attribute):
            parts.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return ".".join((*((node.id,) if isinstance(node, ast.Name) else ()), *reversed(parts)))


def _training_call_kind(node: ast.AST, trainers: Collection[str]) -> int:
    """Return the kind of a training call, or 0 for any other node.

    4: `trainer.train()` or `.fit()`. 2: `backward()` or the step of an optimizer. 1: another call whose name says that
    it trains.
    """
    if not isinstance(node, ast.Call):
        return 0
    if isinstance(node.func, ast.Name):
        return 1 if TRAINS.search(node.func.id) else 0
    if not isinstance(node.func, ast.Attribute):
        return 0
    owner = _name(node.func.value)
    if node.func.attr in ("train", "fit") and ("trainer" in owner.lower() or owner in trainers):
        return 4
    steps = node.func.attr == "step" and OPTIMIZER.search(owner) is not None
    if node.func.attr == "backward" or steps:
        return 2
    return 1 if TRAINS.search(node.func.attr) and node.func.attr != "train" else 0  # model.train() only sets a mode


def _runs_code(tree: ast.Module, trainers: Collection[str]) -> bool:
    """Return True if the file's top level trains, calls a function that starts a program, or tests `__name__`."""
    own = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    for statement in tree.body:
        if isinstance(statement, ast.If) and "__name__" in ast.unparse(statement.test):
            return True
        inside = list(_outside_definitions(statement))
        if any(_training_call_kind(node, trainers) for node in inside):
            return True
        starts = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if starts and any(isinstance(node, ast.Name) and (node.id in own or _is_entry(node.id)) for node in inside):
            return True
    return False


def _is_entry(name: str) -> bool:
    """Return True for the name of a function that starts a program."""
    return name in ("main", "cli", "app", "run") or name.startswith("run_") or TRAINS.search(name) is not None


def _outside_definitions(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the node and its descendants, except functions, classes and lambdas."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _outside_definitions(child)


def _is_interactive(tree: ast.Module) -> bool:
    """Return True if the script calls a function that waits for input."""
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return any(_waits_for_input(function, own) for function in calls)


def _waits_for_input(function: ast.expr, own: set[str]) -> bool:
    if isinstance(function, ast.Name):
        return function.id in (*INPUT_FUNCTIONS, "getpass") and function.id not in own
    owner = function.value if isinstance(function, ast.Attribute) else None
    return (
        isinstance(function, ast.Attribute)
        and isinstance(owner, ast.Name)
        and INPUT_METHODS.get(owner.id) == function.attr
        and owner.id not in own
    )
