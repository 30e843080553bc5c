"""Find each torchrun that a command starts without the hooks and that would unpickle the unsigned state in its store.

On the host, such a process is recognised only after its start. Until then, another user of the host could run code in
it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from posixpath import basename

from fixers.frame.site import Tree
from fixers.setup.started_files import shell_scripts_of
from fixers.sources.shell_values import DECLARATIONS, Values, values_in
from fixers.sources.shell_words import scan_shell
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Script
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.launchers import ELASTIC, isolating_flag, unpickles_state

CHECK = "unsigned-processes"
PATH = "PYTHONPATH"
PRINTS = ("echo", "printf")
LONGEST_SCRIPT = 256 * 2**10
MOST_SCRIPTS = 100
VARIABLE = re.compile(r"\$\{?(\w+)")
PYTHON = re.compile(r"python[\d.]*")
KEEPS = "keep the earlier value: export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}"
PASSES = "pass all variables on to torchrun, and start python without -I, -E and -S"


@dataclass(frozen=True)
class _Loss:
    """What removes the hooks from the processes that are started after it. `start` is its position in the script."""

    message: str
    hint: str
    start: int | None = None
    line: int = 0

    def located(self, data: bytes) -> _Loss:
        """Return the loss with its line, counted from 1."""
        return self if self.start is None else replace(self, line=line_of(data, self.start))


def judge_launchers(tree: Tree, command: Sequence[str]) -> Report:
    """Return an error for the torchrun of the command, and for the first one in each shell script that it starts.

    Scripts of more than LONGEST_SCRIPT bytes are not read.
    """
    loss = _lost_by_words(command) if unpickles_state(command) else None
    findings = [_finding(loss, "train.command")] if loss is not None else []
    for path, data in islice(shell_scripts_of(tree, command), MOST_SCRIPTS):
        if len(data) <= LONGEST_SCRIPT:
            findings += islice(_judge_text(path or "train.command", data), 1)
    return Report(tuple(findings))


def _judge_text(path: str, data: bytes) -> Iterator[Finding]:
    with suppress(Unparsable, RecursionError):
        yield from _judge_script(path, data, scan_shell(data))


def _judge_script(path: str, data: bytes, script: Script) -> Iterator[Finding]:
    values, lost = values_in(script, ()), None
    for command in script.commands:
        words = [word.raw if word.text is None else word.text for word in command.words]
        declares = bool(words) and words[0] in DECLARATIONS
        own = _lost_by_assignments(command, values, declares=declares)
        if declares or not words:
            lost = own or lost
        elif words[0] == "unset" and PATH in words:
            lost = _Loss("PYTHONPATH is removed", "remove the `unset`", command.words[0].start)
        elif words[0] not in PRINTS and unpickles_state(words) and (loss := own or _lost_by_words(words) or lost):
            yield _finding(loss.located(data), f"{path}:{line_of(data, command.words[0].start)}")


def _finding(loss: _Loss, where: str) -> Finding:
    line = f" in line {loss.line}" if loss.line else ""
    message = (
        f"torchrun starts without the hooks, because {loss.message}{line}: it would unpickle the unsigned state in its"
        " store, so another user of the host could run code under your account"
    )
    return Finding(CHECK, Severity.ERROR, message, where=where, hint=loss.hint)


def _lost_by_assignments(command: Command, values: Values, *, declares: bool) -> _Loss | None:
    """Return the loss by an assignment to PYTHONPATH without its earlier value, before a command or in `export`."""
    own = [(each.value.raw, each.value.start) for each in command.assignments if each.name == PATH and not each.appends]
    if declares:
        own += [(word.raw, word.start) for word in command.words if word.raw.startswith(f"{PATH}=")]
    for raw, start in own:
        if not _has_earlier_value(raw.removeprefix(f"{PATH}="), values):
            return _Loss("PYTHONPATH is set without its earlier value", KEEPS, start)
    return None


def _has_earlier_value(raw: str, values: Values) -> bool:
    texts = (text for name in VARIABLE.findall(raw) for text in values.get(name, ()))
    return PATH in raw or any(PATH in text for text in texts)


def _lost_by_words(words: Sequence[str]) -> _Loss | None:
    """Return the loss by the words before torchrun: env, sudo and options of Python."""
    before = list(_before_launcher(words))
    names = [basename(word) for word in before]
    if _removes_variables(names, set(before)):
        return _Loss(f"`{' '.join(before)}` removes its variables", PASSES)
    python = next((number for number, name in enumerate(names) if PYTHON.fullmatch(name)), len(before))
    if flag := isolating_flag(before[python:]):
        return _Loss(f"python {flag} ignores PYTHONPATH", PASSES)
    if "env" in names and any(word.startswith(f"{PATH}=") and word.count(PATH) == 1 for word in before):
        return _Loss("`env` sets PYTHONPATH without its earlier value", KEEPS)
    return None


def _removes_variables(names: Sequence[str], words: Collection[str]) -> bool:
    if "srun" in names:
        return any(word.startswith("--export=") and not word.startswith("--export=ALL") for word in words)
    if "env" in names:
        return not {"-", "-i", "--ignore-environment"}.isdisjoint(words)
    enters = not {"apptainer", "singularity"}.isdisjoint(names)
    return "sudo" in names or (enters and not {"-e", "--cleanenv", "-C", "--containall"}.isdisjoint(words))


def _before_launcher(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if basename(word) in ELASTIC:
            return
        yield word
