"""Which of the paths in a script its start is certain to read. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from pipeline.judgements.calls import last_name
from pipeline.judgements.path_literals import EXITS, PathReader, calls_of, literal_of, names_in
from pipeline.judgements.path_text import path_in

READS = frozenset(
    {
        "from_pretrained",
        "load_dataset",
        "load_from_disk",
        "read_csv",
        "read_json",
        "read_parquet",
        "read_table",
        "read_excel",
        "listdir",
        "scandir",
        "chdir",
    }
)
READS_OF = {
    "load": frozenset({"torch", "np", "numpy", "torchaudio", "librosa", "joblib"}),
    "read": frozenset({"sf", "soundfile"}),
}
READ_KEYWORDS = frozenset({"data_dir", "data_files", "path", "pretrained_model_name_or_path", "file"})


def certain_reads(tree: ast.Module, reader: PathReader) -> dict[int, str]:
    """Literals by id that calls which always run read, and nothing else uses; the name of that call."""
    texts = Counter(path for _, path in reader.found)
    reads: list[tuple[str, ast.expr, ast.expr]] = []
    for call in _always_called(tree):
        reads.extend((last_name(call.func), argument, _literal_behind(argument, reader)) for argument in _read_by(call))
    used = Counter(argument.id for _, argument, _ in reads if isinstance(argument, ast.Name))
    return {
        id(literal): name
        for name, argument, literal in reads
        if texts[path := path_in(literal_of(literal))] == 1
        and not {path, *names_in(argument)} & reader.looked_for
        and (not isinstance(argument, ast.Name) or reader.loads[argument.id] == used[argument.id])
    }


def _literal_behind(argument: ast.expr, reader: PathReader) -> ast.expr:
    """The literal itself, or what the one assignment of a name, or the default of an option, gives."""
    if isinstance(argument, ast.Name) and len(reader.assigned.get(argument.id, ())) == 1:
        return reader.assigned[argument.id][0]
    if isinstance(argument, ast.Attribute) and isinstance(argument.value, ast.Name):
        return reader.defaults.get(argument.attr, argument)
    return argument


def _read_by(call: ast.Call) -> Iterator[ast.expr]:
    name = last_name(call.func)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    of = owner.id if isinstance(owner, ast.Name) else ""
    opens = name == "open" and isinstance(call.func, ast.Name) and _opens_to_read(call)
    if name in READS or opens or of in READS_OF.get(name, ()):
        yield from call.args[:1]
        yield from (keyword.value for keyword in call.keywords if keyword.arg in READ_KEYWORDS)


def _opens_to_read(call: ast.Call) -> bool:
    mode = call.args[1] if len(call.args) > 1 else next((k.value for k in call.keywords if k.arg == "mode"), None)
    return mode is None or (isinstance(mode, ast.Constant) and str(mode.value).startswith("r"))


def _always_called(tree: ast.Module) -> Iterator[ast.Call]:
    """Calls that run whenever the file is started: at its top level, in `__main__`, in functions called from there."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    exits = EXITS | {name for name, node in functions.items() if next(calls_of(node, EXITS), None)}
    entered: set[str] = set()
    waiting = [tree.body]
    while waiting:
        for call in _unconditional(waiting.pop(), exits):
            yield call
            called = call.func.id if isinstance(call.func, ast.Name) else ""
            if called in functions and called not in entered:
                entered.add(called)
                waiting.append(functions[called].body)


def _unconditional(body: list[ast.stmt], exits: frozenset[str]) -> Iterator[ast.Call]:
    """Calls of statements that run one after another, up to the first statement after which they may not."""
    for statement in body:
        if isinstance(statement, ast.If) and _is_main(statement.test):
            yield from _unconditional(statement.body, exits)
        elif isinstance(statement, ast.With):
            for item in statement.items:
                yield from _plain_calls(item.context_expr)
            yield from _unconditional(statement.body, exits)
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr | ast.Return) and statement.value:
            yield from _plain_calls(statement.value)
        if _may_leave(statement, exits):
            return


def _may_leave(statement: ast.stmt, exits: frozenset[str]) -> bool:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    return any(isinstance(node, ast.Return | ast.Raise) for node in ast.walk(statement)) or any(
        calls_of(statement, exits)
    )


def _plain_calls(node: ast.expr) -> Iterator[ast.Call]:
    """Calls in an expression that no condition, loop or lambda stands around."""
    if isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp):
        return
    if isinstance(node, ast.GeneratorExp):
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.keyword):
            yield from _plain_calls(child.value)
        elif isinstance(child, ast.expr):
            yield from _plain_calls(child)


def _is_main(test: ast.expr) -> bool:
    names = set(names_in(test))
    return isinstance(test, ast.Compare) and names == {"__name__"}
