"""Syntax errors in the Python files that a command loads whenever it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fixers.frame.findings import error, warning
from fixers.frame.site import Tree
from fixers.setup.imported_modules import Loaded, files_of_script
from fixers.setup.started_files import python_files_of, shell_scripts_of
from fixers.setup.started_module import start_of
from fixers.sources.misplaced import find_misplaced
from fixers.sources.syntax import Oversized, parse_python
from remote.protocol.findings import Finding

CHECK = "unparsable-source"
PYTHON = "python"


def judge_syntax(tree: Tree, command: Sequence[str]) -> tuple[Finding, ...]:
    """Return an error for each file of the command that does not parse with the Python that runs halfstep.

    The files are the script of the command and the modules of the project that it imports at its start. If a shell
    script starts the Python file, the findings are warnings, because the shell script may choose another Python.
    """
    if _script_of(tree, command):
        return tuple(_errors(tree, command))
    started = python_files_of(tree, command) if any(shell_scripts_of(tree, command)) else None
    return as_warnings(one for path in sorted(started or ()) for one in _errors(tree, (PYTHON, path)))


def as_warnings(errors: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return each error once, as a warning, for files that a newer Python may run."""
    return tuple(dict.fromkeys(warning(one.check, one.message, one.where, one.hint) for one in errors))


def without_known(found: Iterable[Finding], known: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings of files about which the fixers report no syntax error."""
    files = {_file_of(one) for one in known if one.check == CHECK}
    return tuple(one for one in found if _file_of(one) not in files)


def _file_of(finding: Finding) -> str:
    return finding.where.rpartition(":")[0]


def _errors(tree: Tree, command: Sequence[str]) -> Iterator[Finding]:
    _, files = files_of_script(tree, command)
    script = _script_of(tree, command)
    for file in files or [Loaded(script, tree.read(script))]:  # a script that replaces modules may load others
        problem = _syntax_error(file.data)
        if problem is not None:
            yield error(CHECK, f"not Python: {problem.msg}", f"{file.path}:{problem.lineno}", "correct the file")


def _script_of(tree: Tree, command: Sequence[str]) -> str:
    return start_of(command, {path for path in tree.paths() if path.endswith(".py")}).path


def _syntax_error(data: bytes) -> SyntaxError | None:
    """Return the error with which Python would reject the file, or None if there is none or it is too large to tell."""
    try:
        return find_misplaced(parse_python(data))
    except Oversized:
        return None
    except SyntaxError as problem:
        return problem if problem.lineno else None
