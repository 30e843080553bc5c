"""Find the paths that a script certainly reads. Pure."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from pipeline.judgements.calls import last_name
from pipeline.judgements.path_literals import EXITS, PathReader, calls_of, literal_of, names_in, use_key
from remote.protocol.dataclass import dataclass, field

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
    "load": frozenset({"torch", "np", "numpy", "torchaudio", "librosa", "joblib", "OmegaConf"}),
    "read": frozenset({"sf", "soundfile"}),
}
CREATES_FILES = frozenset(
    {
        "system",
        "check_call",
        "check_output",
        "Popen",
        "snapshot_download",
        "hf_hub_download",
        "urlretrieve",
        "extractall",
        "unpack_archive",
        "copytree",
        "symlink",
    }
)
READ_KEYWORDS = frozenset({"data_dir", "data_files", "path", "pretrained_model_name_or_path", "file"})


@dataclass(frozen=True)
class CertainReads:
    """The paths that a script certainly reads, because the calls that read them always run.

    `literals` maps the node id of a path literal to the name of the called function. `options` are the command-line
    options whose value is certainly read.
    """

    literals: Mapping[int, str] = field(default_factory=dict)
    options: frozenset[str] = frozenset()


def certain_reads(tree: ast.Module, reader: PathReader) -> CertainReads:
    """Return the paths that a script certainly reads.

    The result is empty if the script downloads data or starts programs.
    """
    if any(calls_of(tree, CREATES_FILES)):
        return CertainReads()
    reads = _sole_reads(tree, reader)
    unique = _unique(path for _, path in reader.found)
    tested = {id(literal) for literal, path in reader.found if path in reader.looked_for}
    literals = ((name, _value_of(argument, reader)) for name, argument in reads)
    return CertainReads(
        {
            id(node): name
            for name, node in literals
            if reader.recognise(literal_of(node)) in unique and id(node) not in tested
        },
        frozenset(argument.attr for _, argument in reads if isinstance(argument, ast.Attribute)),
    )


def _sole_reads(tree: ast.Module, reader: PathReader) -> list[tuple[str, ast.expr]]:
    """Return (function name, argument) of each read that always runs, unless other code uses or tests the argument."""
    reads = [(last_name(call.func), argument) for call in _always_called(tree) for argument in _read_by(call)]
    used = Counter(key for _, argument in reads if (key := use_key(argument)))

    def is_sole_use(argument: ast.expr) -> bool:
        key = use_key(argument)
        return not {*names_in(argument)} & reader.looked_for and (not key or reader.loads[key] == used[key])

    return [(name, argument) for name, argument in reads if is_sole_use(argument)]


def _unique(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that occur exactly once and have neither parents nor children among the others."""
    groups: list[list[str]] = []
    for path in sorted(f"{each}/" for each in paths):  # the children of a path follow it
        if groups and path.startswith(groups[-1][0]):
            groups[-1].append(path)
        else:
            groups.append([path])
    return frozenset(group[0][:-1] for group in groups if len(group) == 1)


def _value_of(argument: ast.expr, reader: PathReader) -> ast.expr:
    """Return the value of an argument: itself, the only assignment to its name, or the default of its option."""
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
    """Yield calls that always run: at the top level, under `__name__ == "__main__"`, and in functions called there."""
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
    """Yield the calls of statements that always run, up to the first statement that may leave the block."""
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
    """Yield the calls in an expression outside of conditions, loops and lambdas."""
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
