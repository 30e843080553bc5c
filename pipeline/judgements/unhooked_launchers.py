"""Find each torchrun that a command starts without the hooks and that would unpickle the unsigned state in its store.

On the host, such a process is recognised only after its start. Until then, another user of the host could run code in
it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from posixpath import basename

from fixers.frame.site import Tree
from fixers.setup.started_files import shell_scripts_of
from fixers.sources.shell_values import DECLARATIONS, Values, values_in
from fixers.sources.shell_words import scan_shell
from fixers.sources.splice import line_of
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Report, Severity

CHECK = "unsigned-processes"
PATH = "PYTHONPATH"
ELASTIC = frozenset({"torchrun", "torch.distributed.run"})
PRINTS = ("echo", "printf")
BACKEND = re.compile(r"--rdzv[-_]backend[= ]c10d\b")
"""Matches an option with which torchrun keeps its state in a store, as `--standalone` does."""
ISOLATES = re.compile(r"-(?!-)\w*[IES]\w*")
VARIABLE = re.compile(r"\$\{?(\w+)")
PYTHON = re.compile(r"python[\d.]*")
KEEPS = "keep the earlier value: export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}"
PASSES = "start torchrun without `env -i` and `sudo`, and python without -I, -E and -S"


@dataclass(frozen=True)
class _Loss:
    """What removes the hooks from the processes that are started after it."""

    message: str
    hint: str
    line: int = 0


def judge_launchers(tree: Tree, command: Sequence[str]) -> Report:
    """Return an error for each torchrun of the command, or of a shell script that the command starts."""
    loss = _lost_by_words(command) if _is_elastic(command) else None
    findings = [_finding(loss, "train.command")] if loss is not None else []
    for path, data in shell_scripts_of(tree, command):
        findings += _judge_script(path or "train.command", data)
    return Report(tuple(findings))


def _judge_script(path: str, data: bytes) -> Iterator[Finding]:
    try:
        script = scan_shell(data)
    except (Unparsable, RecursionError):
        return
    values, lost = values_in(script, ()), None
    for command in script.commands:
        words = [word.raw if word.text is None else word.text for word in command.words]
        declares = bool(words) and words[0] in DECLARATIONS
        own = _lost_by_assignments(data, command, values, declares=declares)
        if declares or not words:
            lost = own or lost
        elif words[0] == "unset" and PATH in words:
            lost = _Loss("PYTHONPATH is removed", "remove the `unset`", line_of(data, command.words[0].start))
        elif _is_elastic(words) and (loss := own or _lost_by_words(words) or lost):
            yield _finding(loss, f"{path}:{line_of(data, command.words[0].start)}")


def _finding(loss: _Loss, where: str) -> Finding:
    line = f" in line {loss.line}" if loss.line else ""
    message = (
        f"torchrun starts without the hooks, because {loss.message}{line}: it would unpickle the unsigned state in its"
        " store, so another user of the host could run code under your account"
    )
    return Finding(CHECK, Severity.ERROR, message, where=where, hint=loss.hint)


def _lost_by_assignments(data: bytes, command: Command, values: Values, *, declares: bool) -> _Loss | None:
    """Return the loss by an assignment to PYTHONPATH without its earlier value, before a command or in `export`."""
    own = [(each.value.raw, each.value.start) for each in command.assignments if each.name == PATH and not each.appends]
    if declares:
        own += [(word.raw, word.start) for word in command.words if word.raw.startswith(f"{PATH}=")]
    for raw, start in own:
        if not _has_earlier_value(raw.removeprefix(f"{PATH}="), values):
            return _Loss("PYTHONPATH is set without its earlier value", KEEPS, line_of(data, start))
    return None


def _has_earlier_value(raw: str, values: Values) -> bool:
    texts = (text for name in VARIABLE.findall(raw) for text in values.get(name, ()))
    return PATH in raw or any(PATH in text for text in texts)


def _lost_by_words(words: Sequence[str]) -> _Loss | None:
    """Return the loss by the words before torchrun: env, sudo and options of Python."""
    before = list(_before_launcher(words))
    names = [basename(word) for word in before]
    if "sudo" in names or ("env" in names and {"-", "-i", "--ignore-environment"} & {*before}):
        return _Loss(f"`{' '.join(before)}` removes its variables", PASSES)
    python = next((number for number, name in enumerate(names) if PYTHON.fullmatch(name)), len(before))
    if flag := next(filter(ISOLATES.fullmatch, before[python + 1 :]), ""):
        return _Loss(f"python {flag} ignores PYTHONPATH", PASSES)
    if "env" in names and any(word.startswith(f"{PATH}=") and word.count(PATH) == 1 for word in before):
        return _Loss("`env` sets PYTHONPATH without its earlier value", KEEPS)
    return None


def _before_launcher(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if basename(word) in ELASTIC:
            return
        yield word


def _is_elastic(words: Sequence[str]) -> bool:
    """Return True for a torchrun that keeps its state in a store."""
    has_store = "--standalone" in words or BACKEND.search(" ".join(words)) is not None
    return has_store and words[0] not in PRINTS and any(basename(word) in ELASTIC for word in words)
