"""Commands in hints are built by `shell_command`, which quotes names and paths: a clone or a host chooses them."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.protocol.shell import shell_command
from tests.contracts.project_modules import modules

PROGRAMS = r"""
    pipeline|ssh(-[a-z-]+)?|scp|chmod|chown|mkdir|rmdir|rm|mv|cp|ln|ls|df|du|find|cd|cat|export|git|rsync|sudo
    |python[0-9.]*\x20-\S+|pip[0-9.]*|uv|apt(-get)?|conda|docker|podman|apptainer|kill|nvidia-smi|tensorboard
    |scancel|sbatch|squeue|sky|dstack|hf|loginctl|setfacl|getent|mount
"""
OPEN = "\0"
COMMAND = re.compile(rf"(?:^|[:;&(`] ?)(?!git tracks )(?:{''.join(PROGRAMS.split())}) [^`{OPEN}]*{OPEN}")
TEMPLATES = {"shell_command", "on_host"}
QUOTING = {*TEMPLATES, "command_line", "outside_project"}
SCRIPTS = {  # shell scripts, not hints: their words are constants, or quoted one by one
    "pipeline/export/task.py",
    "remote/link/ssh/sockets.py",
}
FOR_SH = {  # shlex quotes for sh only
    *SCRIPTS,
    "pipeline/runs/command.py",  # a record of the command
    "pipeline/runs/launcher.py",  # a part of a sentence, which may be cut
    "pipeline/verbs/init_answers.py",  # shows the command of the config
    "remote/link/shellwords.py",
    "remote/payload/jobs/slurm.py",
}


def test_command_in_a_hint_quotes_its_names():
    exempt = {*SCRIPTS, "remote/protocol/shell.py"}
    found = [f"{one.where}:{line}" for one in modules() if one.where not in exempt for line in _unquoted(one.tree)]
    assert not found, f"use remote.protocol.shell.shell_command: {found}"


def test_SE_only_scripts_are_quoted_for_sh_alone() -> None:
    found = {one.where for one in modules() if re.search(r"shlex\.(quote|join)\(", one.source)}
    assert found <= FOR_SH


@pytest.mark.parametrize(
    ("source", "unquoted"),
    [
        ('f"pipeline hosts check {name}"', True),
        ('f"chmod 600 {path}"', True),
        ('f"the file is not private: chmod 600 {path}"', True),
        ('f"read `pipeline logs {run}`"', True),
        ("f\"git config --add safe.directory '{path}'\"", True),
        ('f"python -m pip install {package}"', True),
        ('f"pipeline hosts check {shlex.quote(name)}"', True),
        ('f"pipeline {shlex.join(words)}"', True),
        ('f"pipeline run --set fixers.{FIXER}=never"', False),
        ("f\"pipeline {command_line(['run', name])}\"", False),
        ('f"`{shlex.quote(path)}` of {name}"', False),
        ('f"pipeline of {name}"', True),
        ('f"the pipeline {name}"', False),
        ('f"`pipeline run` on {name}"', False),
        ('shell_command(f"chmod {path}")', True),
        ("shell_command(template, path)", True),
        ("shell_command(\"chmod 600 '{}'\", path)", True),
        ('shell_command("chmod 600 {}", path)', False),
        ('on_host("chmod 600 {}", path)', False),
        ("on_host(HINTS[step], path)", False),
        ("on_host(A if path else B, path)", False),
        ('on_host(f"chmod {path}")', True),
        ("on_host(*words)", True),
        ('"chmod 600 " + path', True),
        ('"chmod 600 %s" % path', True),
        ('"chmod 600 {}".format(path)', True),
        ('"chmod 600 {}   (on the host)"', False),
    ],
)
def test_unquoted_name_is_recognised(source, unquoted):
    assert bool(list(_unquoted(ast.parse(source)))) is unquoted


@pytest.mark.parametrize("name", ["a;touch PWNED", "a b", "$(id)", 'a"b', "~root", "", "a{}b", "=ls", "%self"])
def test_name_is_one_word_of_the_shell(name, tmp_path):
    line = shell_command("printf %s,%s {} {}", name, Path("x y"))
    shell = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert shell.stdout == f"{name},x y"


def _unquoted(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of texts that contain a command with a placeholder that is not quoted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in TEMPLATES:
            template = str(node.args[0].value) if isinstance(node.args[0], ast.Constant) else None
            if re.search(r"['\"]\{|\{[^}]", template) if template is not None else not _are_constants(node.args[0]):
                yield node.lineno
        elif (text := _rendered(node)) and COMMAND.search(text):
            yield node.lineno


def _are_constants(node: ast.expr) -> bool:
    """Return True for constants of a module, by their capitals."""
    if isinstance(node, ast.IfExp):
        return _are_constants(node.body) and _are_constants(node.orelse)
    node = node.value if isinstance(node, ast.Subscript) else node
    return isinstance(node, ast.Name) and node.id.isupper()


def _rendered(node: ast.AST) -> str:
    """Return the text that an expression builds, with OPEN at every placeholder that is not quoted."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Mod)) and _is_text(node.left):
        return f"{node.left.value}{_part(node.right)}"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return f"{node.func.value.value}{OPEN}" if _is_text(node.func.value) else ""
    return ""


def _part(part: ast.expr) -> str:
    value = part.value if isinstance(part, ast.FormattedValue) else part
    if isinstance(value, ast.Constant):
        return str(value.value)
    is_constant = isinstance(value, ast.Name) and value.id.isupper()
    is_quoted = isinstance(value, ast.Call) and ast.unparse(value.func) in QUOTING
    return "x" if is_constant or is_quoted else OPEN


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
