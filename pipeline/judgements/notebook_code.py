"""Find code of notebooks in scripts: names that only IPython defines. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from fixers.frame.site import Tree
from fixers.setup.started_module import LAUNCHERS
from fixers.sources.python import PythonSource, read_python
from fixers.sources.syntax import LARGEST_BYTES
from fixers.sources.unparsable import Unparsable
from remote.protocol.findings import Finding, Report
from remote.protocol.text import one_line

CHECK = "notebook-code"
NAMES = {"get_ipython": b"get_ipython", "display": b"display("}
CONDITIONAL = (ast.If, ast.Try, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMMAND = re.compile(rb"^[ \t]*(?:![ \t]*\w|%{1,2}[a-z]\w*\b(?![ \t]*[(=%]))", re.MULTILINE)
"""A command of the shell or a magic command at the start of a line: `!pip install`, `%matplotlib inline`."""
MOST_LINES, LONGEST = 8, 60
INSTALLS = "install"
HINT = 'delete these lines, or put them below `if "get_ipython" in globals():`'
SAVE_AS_SCRIPT = (
    "save the notebook as a Python script (in Jupyter: File, Save and Export Notebook As, Executable Script)"
)
"""No command: programs that convert a notebook load templates from the folder of the project and execute them."""
PACKAGES_HINT = "; list packages in requirements.txt"


def judge_notebook_code(tree: Tree, command: Sequence[str], paths: Iterable[str]) -> Report:
    """Return a warning for each of the files with names of IPython, which plain python does not define.

    `paths`: the files that the command uses.
    """
    if not command or posixpath.basename(command[0]).startswith(("ipython", "jupyter")):
        return Report()
    scripts = (path for path in sorted(paths) if path.endswith(".py"))
    found = [finding for path in scripts for finding in _judge(path, tree.read(path))]
    return Report((*_judge_command(tree, command), *found))


def _judge_command(tree: Tree, command: Sequence[str]) -> Iterator[Finding]:
    """Yield a warning if Python gets a notebook instead of a script."""
    script = next((word for word in command[1:] if word.endswith((".py", ".ipynb"))), "")
    path = posixpath.normpath(script)
    if posixpath.basename(command[0]) in LAUNCHERS and path.endswith(".ipynb") and path in set(tree.paths()):
        message = f"{path} is a notebook, which {posixpath.basename(command[0])} cannot run"
        yield Finding.warning(CHECK, message, "command", f"{SAVE_AS_SCRIPT}, then name the script in `command:`")


def _judge(path: str, data: bytes) -> Iterator[Finding]:
    if len(data) > LARGEST_BYTES or not (any(word in data for word in NAMES.values()) or COMMAND.search(data)):
        return
    try:
        source = read_python(path, data)
    except Unparsable:
        yield from _judge_commands(path, data)
        return
    used = list(_used(source))
    lines = sorted({node.lineno for node in used})
    if not lines:
        return
    names = " and ".join(f"{name}()" for name in NAMES if any(node.id == name for node in used))
    message = f"plain python does not define {names}, which a notebook has: {_listed(lines)}"
    installs = any(INSTALLS in source.segment(source.names.statement(node)) for node in used)
    yield Finding.warning(CHECK, message, f"{path}:{lines[0]}", HINT + PACKAGES_HINT * installs)


def _judge_commands(path: str, data: bytes) -> Iterator[Finding]:
    """Yield a warning about lines that only a notebook can run, in a file that does not parse."""
    starts = [match.start() for match in islice(COMMAND.finditer(data), MOST_LINES + 1)]
    if starts:
        first = one_line(data[starts[0] :].partition(b"\n")[0].decode("utf-8", "replace"))[:LONGEST]
        lines = [data.count(b"\n", 0, start) + 1 for start in starts]
        message = f"not Python, but commands of a notebook, as in `{first}`: {_listed(lines)}"
        yield Finding.warning(CHECK, message, f"{path}:{lines[0]}", f"delete these lines{PACKAGES_HINT}")


def _listed(lines: Sequence[int]) -> str:
    listed = ", ".join(map(str, lines[:MOST_LINES])) + (", ..." if len(lines) > MOST_LINES else "")
    return f"line{'s' if len(lines) > 1 else ''} {listed}"


def _used(source: PythonSource) -> Iterator[ast.Name]:
    """Yield the names of IPython that run when the file is loaded and that no import or assignment defines."""
    if "*" in source.names.module.bindings:
        return
    for call in source.names.of_type(ast.Call):
        node = call.func
        if isinstance(node, ast.Name) and node.id in NAMES and not _is_defined(source, node):
            above = source.names.ancestors(node)
            yield from () if any(isinstance(each, CONDITIONAL) for each in above) else (node,)


def _is_defined(source: PythonSource, node: ast.Name) -> bool:
    return any(node.id in scope.bindings for scope in source.names.scopes.values())
