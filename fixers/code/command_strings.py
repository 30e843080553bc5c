"""Edit commands that Python runs as one string: `subprocess.run("accelerate launch ...", shell=True)`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from fixers.code.draft import Draft
from fixers.settings.edit_list import EditList
from fixers.settings.launch_forms import Launch
from fixers.sources.gates import is_gated
from fixers.sources.lines import lines_with
from fixers.sources.python import PythonSource
from fixers.sources.shell_words import scan_shell
from fixers.sources.unparsable import Unparsable

COMMANDS = (b"subprocess", b"os.system", b"os.popen")
RUNS_COMMANDS = re.compile(rb"\bsubprocess\b|\bos[.](?:system|popen)\b")
RUNS = re.compile(r"(?:subprocess\.\w+|os\.(?:system|popen))")
SPLITS = ("shlex.split",)
CHANGED_FLAGS = re.compile(r"--(?:\w*bf16|[\w-]*flash[_-]att\w+|\S+[ =](?:bf16|bfloat16|flash_att\w+)\b)")
LITERAL = re.compile(r"[rRfF]{0,2}(\"\"\"|'''|\"|')(.*)\1", re.DOTALL)
LEFT = "the command in this string contains {}; it was left unchanged, because it is not one plain string in the file"


def runs_commands(data: bytes) -> bool:
    """Return True if the file may run commands."""
    return RUNS_COMMANDS.search(lines_with(data, COMMANDS)) is not None


def edit_command_strings(draft: Draft) -> None:
    """Select float16 and disable FlashAttention in every command that is one string."""
    if not runs_commands(draft.source.text):
        return
    for node in _strings(draft.source):
        found = CHANGED_FLAGS.search(draft.source.segment(node))
        if found is not None and not is_gated(draft.source, node) and not _edit(draft, node):
            draft.warn(node, LEFT.format(found[0]))


def _strings(source: PythonSource) -> Iterator[ast.Constant | ast.JoinedStr]:
    """Yield the strings that are passed, directly or through a variable, to a call that runs commands."""
    given = [_unsplit(source, each) for each in _commands_run(source)]
    named = {each.id for each in given if isinstance(each, ast.Name)}
    for assignment in source.names.of_type(ast.Assign):
        if named & {target.id for target in assignment.targets if isinstance(target, ast.Name)}:
            given.append(_unsplit(source, assignment.value))
    yield from (each for each in given if isinstance(each, ast.JoinedStr) or _is_text(each))


def _commands_run(source: PythonSource) -> Iterator[ast.expr]:
    for call in source.names.of_type(ast.Call):
        if RUNS.fullmatch(source.names.meaning(call.func) or ""):
            yield from call.args[:1]
            yield from (each.value for each in call.keywords if each.arg == "args")


def _is_text(value: ast.expr) -> TypeGuard[ast.Constant]:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def _unsplit(source: PythonSource, value: ast.expr) -> ast.expr:
    """Return the command in `shlex.split(command)` and `command.split()`."""
    match value:
        case ast.Call(func=function, args=[inner, *_]) if source.names.meaning(function) in SPLITS:
            return inner
        case ast.Call(func=ast.Attribute(attr="split", value=inner), args=[]):
            return inner
    return value


def _edit(draft: Draft, node: ast.Constant | ast.JoinedStr) -> bool:
    """Edit the command. Returns False if the text in the file differs from the text that the shell reads."""
    source = draft.source
    literal = LITERAL.fullmatch(source.segment(node))
    if literal is None or "\\" in literal[2] or "{{" in literal[2]:
        return False
    start = source.span(node)[0] + len(source.segment(node)[: literal.start(2)].encode())
    launch = Launch(EditList(source.path, source.text, draft.check))
    try:
        launch.read(scan_shell(source.text, start, start + len(literal[2].encode())))
    except Unparsable:
        return False
    for edit in launch.edit_list.edits.values():
        draft.edits.append(source.replace(edit.start, edit.expected.decode(), edit.replacement.decode(), edit.why))
    for finding in launch.edit_list.findings:
        draft.warn(node, finding.message, hint=finding.hint)
    return True
