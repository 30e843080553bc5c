"""The calls of a script that need an API key of Weights & Biases, and whether they run in any case. Pure."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from fixers.setup.imported_modules import Loaded
from fixers.sources.names import Names, index_names
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

WANDB = "wandb"
NAMES = re.compile(rb"[wW]andb")
FUNCTIONS = ("wandb.init", "wandb.login")
LOGGERS = re.compile(r"(?:lightning|pytorch_lightning)\.(?:\w+\.)*WandbLogger")
ARGUMENTS = ("report_to", "log_with")
CHOOSES_MODE = (b"WANDB_MODE", b"WANDB_DISABLED")
"""Text in a file that itself decides whether data is sent."""
API_KEY = b"WANDB_API_KEY"
WITHOUT_KEY = ("offline", "disabled", "dryrun")
DECIDES = ("mode", "offline", "key", "anonymous", "settings", None)
"""The arguments that may make the key unnecessary; None is that of `**options`."""
PARSES_REPORT_TO = (b"TrainingArguments", b"HfArgumentParser")
FIRST_PROCESS = re.compile(
    r"(?!.*(?:!=|>|\bnot\b)).*(?:\b(?:local_|global_|node_)?rank\b|get_rank|process_index|is_(?:local_)?main_process"
    r"|is_(?:local_|world_)?process_zero|is_global_zero|is_master|master_process)"
)
"""Matches a condition that holds in the first process only."""
AT_TOP = ""
UNCERTAIN = (ast.IfExp, ast.BoolOp, ast.While, ast.Match, ast.Lambda, ast.ClassDef, ast.AsyncFunctionDef)
FALSE = ("false", "no", "off", "0", "none")


@dataclass(frozen=True)
class WandbUse:
    """A call, as in `wandb.init`, with its file and line. `certain`: it runs and needs a key in any case."""

    where: str
    call: str
    certain: bool


def wandb_uses(script: str, files: Iterable[Loaded], command: Sequence[str]) -> tuple[WandbUse, ...]:
    """Return the uses in the files that the script loads and in the command, or () if the code chooses the mode."""
    found: list[WandbUse] = []
    has_key = parses = False
    for file in files:
        if any(word in file.data for word in CHOOSES_MODE):
            return ()
        has_key, parses = has_key or API_KEY in file.data, parses or any(word in file.data for word in PARSES_REPORT_TO)
        found += _uses_in(file, command, is_script=file.path == script) if NAMES.search(file.data) else ()
    if parses and value_of("report_to", command) == WANDB:
        found.append(WandbUse("command", "--report_to wandb", True))
    return tuple(WandbUse(use.where, use.call, use.certain and not has_key) for use in found)


def value_of(name: str, command: Sequence[str]) -> str | None:
    """Return the value of an option in the command, "" for one without a value, or None if it is not given."""
    for word, after in zip(command, (*command[1:], "--"), strict=True):
        option, equals, value = word.partition("=")
        if option.lstrip("-+").replace("-", "_").rpartition(".")[2] == name and (equals or word.startswith("-")):
            return value if equals else "" if after.startswith("-") else after
    return None


def _uses_in(file: Loaded, command: Sequence[str], *, is_script: bool) -> Iterator[WandbUse]:
    try:
        names = index_names(parse_python(file.data))
    except (SyntaxError, ValueError):
        return
    certainty = Certainty(names, command, is_script=is_script)
    for call in names.of_type(ast.Call):
        name = _name_of(call, names)
        if name and not _needs_no_key(call) and not certainty.is_turned_off(call):
            certain = not any(word.arg in DECIDES for word in call.keywords) and certainty.runs(call)
            yield WandbUse(f"{file.path}:{call.lineno}", name, certain)


def _name_of(call: ast.Call, names: Names) -> str:
    """Return how the call uses the tracker, or "" if it does not."""
    for word in call.keywords:
        values = word.value.elts if isinstance(word.value, ast.List | ast.Tuple) else [word.value]
        if word.arg in ARGUMENTS and any(isinstance(one, ast.Constant) and one.value == WANDB for one in values):
            return f'{word.arg}="{WANDB}"'
    meaning = names.meaning(call.func) or ""
    if LOGGERS.fullmatch(meaning):
        return meaning.rpartition(".")[2]
    return meaning if meaning in FUNCTIONS else ""


def _needs_no_key(call: ast.Call) -> bool:
    """Return True for `mode="offline"`, `offline=True`, and a key in the code."""
    given = {word.arg: word.value.value for word in call.keywords if isinstance(word.value, ast.Constant)}
    has_key = bool(given.get("key")) or any(isinstance(one, ast.Constant) and one.value for one in call.args)
    is_login = isinstance(call.func, ast.Attribute | ast.Name) and ast.unparse(call.func).endswith("login")
    return given.get("mode") in WITHOUT_KEY or given.get("offline") is True or (is_login and has_key)


class Certainty:
    """Decides whether a node of a file runs whenever the script runs."""

    def __init__(self, names: Names, command: Sequence[str], *, is_script: bool) -> None:
        self._names, self._command, self._is_script = names, command, is_script
        bodies = (node.body for node in names.of_type(ast.If))
        self._unconditional = {node for nodes in (*bodies, *_last_blocks(names)) for node in nodes}
        self._running = self._functions_called()

    def runs(self, node: ast.AST) -> bool:
        """Return True if no condition, handler or function that may not be called contains the node."""
        return self._place(node) in self._running

    def is_turned_off(self, node: ast.AST) -> bool:
        """Return True if an option that guards the node is false in the command, as in `--wandb False`."""
        below = node
        for above in self._names.ancestors(node):
            if isinstance(above, ast.If) and below in self._unconditional:
                test = above.test
                tests = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
                values = [value_of(_option(each), self._command) for each in tests if _option(each)]
                if any(value is not None and value.lower() in FALSE for value in values):
                    return True
            below = above
        return False

    def _functions_called(self) -> frozenset[str | None]:
        """Return AT_TOP and the functions that a call calls, or gets as an argument, whenever the script runs."""
        called: defaultdict[str | None, set[str]] = defaultdict(set)
        for node in self._names.of_type(ast.Name):
            above = self._names.parent(node)
            if isinstance(above, ast.Call) and isinstance(node.ctx, ast.Load):
                called[self._place(above)].add(node.id)
        running, new = {AT_TOP}, [AT_TOP]
        while new:
            found = called[new.pop()] - running
            running |= found
            new += found
        return frozenset(running)

    def _place(self, node: ast.AST) -> str | None:
        """Return the function whose every call runs the node, AT_TOP if the file does, or None if it is uncertain."""
        below = node
        for above in self._names.ancestors(node):
            match above:
                case ast.FunctionDef(name=name):
                    return name if self._names.parent(above) is self._names.module.node else None
                case ast.If(test=test):
                    if below is not test and not (below in self._unconditional and self._holds(test)):
                        return None
                case ast.Try():
                    if below not in self._unconditional:
                        return None
                case _ if isinstance(above, UNCERTAIN):
                    return None
            below = above
        return AT_TOP

    def _holds(self, test: ast.expr) -> bool:
        """Return True if the condition holds in one process: it selects the first, or an option that is given."""
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                return all(map(self._holds, values))
            case ast.Compare(left=ast.Name(id="__name__")):
                return self._is_script
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str(wanted))]):
                return value_of(_option(left), self._command) == wanted
        given = value_of(_option(test), self._command) if _option(test) else None
        return FIRST_PROCESS.match(ast.unparse(test)) is not None or (given is not None and given.lower() not in FALSE)


def _last_blocks(names: Names) -> Iterator[list[ast.stmt]]:
    """Yield the `finally` blocks, which also run after an exception."""
    yield from (node.finalbody for node in names.of_type(ast.Try))


def _option(node: ast.expr) -> str:
    """Return the name of the option that the expression reads, or ""."""
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""
