"""Find each torchrun that a command starts without the hooks and that would unpickle the unsigned state in its store.

On the host, such a process is recognised only after its start. Until then, another user of the host could run code in
it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from remote.protocol.launchers import ELASTIC, isolating_flag, launcher_at, unpickles_state

CHECK = "unsigned-processes"
PATH = "PYTHONPATH"
STARTS_NOTHING = frozenset(
    {"echo", "printf", "pkill", "pgrep", "killall", "kill", "which", "type", "hash", "grep", "pip", "command"}
)
LONGEST_SCRIPT = 256 * 2**10
MOST_SCRIPTS = 100
VARIABLE = re.compile(r"\$\{?(\w+)")
ENDING = (".sh", ".bash")
MOST_CALLS = 8
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
PYTHON = re.compile(r"python[\d.]*")
KEEPS = "keep the earlier value: export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH}"
PASSES = "pass all variables on to torchrun, and start python without -I, -E and -S"


@dataclass(frozen=True)
class _Loss:
    """What removes the hooks from the processes that are started after it.

    `start` is its position in the script, `line` its line (counted from 1), `file` the script if it is another one.
    """

    message: str
    hint: str
    start: int | None = None
    line: int = 0
    file: str = ""

    def located(self, data: bytes) -> _Loss:
        """Return the loss with its line."""
        return self if self.start is None or self.line else replace(self, line=line_of(data, self.start))


@dataclass(frozen=True)
class _Parsed:
    """A shell script."""

    path: str
    data: bytes
    script: Script

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return basename(self.path)

    @property
    def assigned(self) -> Mapping[str, str]:
        """The text that the script assigns last to each variable, without quotes."""
        every = (assignment for command in self.script.commands for assignment in command.assignments)
        return {one.name: re.sub(r"""["'()]|\\\n""", " ", one.value.raw) for one in every}


def judge_launchers(tree: Tree, command: Sequence[str]) -> Report:
    """Return an error for the torchrun of the command, and for the first one in each shell script that it starts.

    Scripts of more than LONGEST_SCRIPT bytes are not read.
    """
    loss = _lost_by_words(command) if unpickles_state(command) else None
    findings = [_finding(loss, "train.command")] if loss is not None else []
    found = islice(shell_scripts_of(tree, command), MOST_SCRIPTS)
    parsed = [_parsed(path or "train.command", data) for path, data in found if len(data) <= LONGEST_SCRIPT]
    return Report((*findings, *_judge_scripts([one for one in parsed if one is not None], command)))


def _parsed(path: str, data: bytes) -> _Parsed | None:
    with suppress(Unparsable, RecursionError):
        return _Parsed(path, data, scan_shell(data))
    return None


def _judge_scripts(scripts: Sequence[_Parsed], command: Sequence[str]) -> list[Finding]:
    """Judge the scripts of the command. A script inherits what another script lost before it starts this script."""
    inherited: dict[str, _Loss] = {}
    if loss := _lost_by_words(command):
        inherited |= dict.fromkeys(_scripts_in(command), loss)
    findings: list[Finding] = []
    for _ in range(MOST_CALLS):
        known = len(inherited)
        findings = [one for each in scripts for one in islice(_judge(each, inherited.get(each.name), inherited), 1)]
        if len(inherited) == known:
            break
    return findings


def _judge(parsed: _Parsed, lost: _Loss | None, inherited: dict[str, _Loss]) -> Iterator[Finding]:
    """Yield an error for each torchrun without the hooks, and add the scripts that start without them."""
    values, data = values_in(parsed.script, ()), parsed.data
    for command in parsed.script.commands:
        words = [word.raw if word.text is None else word.text for word in command.words]
        own = _lost_by_assignments(command, values, declares=bool(words) and words[0] in DECLARATIONS)
        if not words or words[0] in DECLARATIONS:
            lost = own or lost
        elif words[0] == "unset" and PATH in words:
            lost = _Loss("PYTHONPATH is removed", "remove the `unset`", command.words[0].start)
        elif not _starts_nothing(words) and (loss := own or _lost_by_words(words) or lost):
            found = _judge_start(words, loss.located(data), parsed, inherited)
            yield from (replace(one, where=f"{parsed.path}:{line_of(data, command.words[0].start)}") for one in found)


def _judge_start(words: Sequence[str], loss: _Loss, parsed: _Parsed, inherited: dict[str, _Loss]) -> Iterator[Finding]:
    """Judge a command that starts with this loss."""
    for name in _scripts_in(words):
        inherited.setdefault(name, loss if loss.file else replace(loss, file=parsed.path))
    if unpickles_state(_expanded(words, parsed.assigned)):
        yield _finding(loss, parsed.path)
    yield from _judge_texts(words, loss, inherited)


def _judge_texts(words: Sequence[str], loss: _Loss, inherited: dict[str, _Loss]) -> Iterator[Finding]:
    """Judge the words that are shell scripts themselves, as after `docker run IMAGE bash -c`."""
    for word in words:
        if " " in word and any(name in word for name in ELASTIC):
            text = _parsed("", word.encode("utf-8", "surrogateescape"))
            yield from _judge(text, loss, inherited) if text is not None else ()


def _starts_nothing(words: Sequence[str]) -> bool:
    """Return True for a command that only names torchrun, such as `command -v torchrun`, unlike `command torchrun`."""
    return words[0] in STARTS_NOTHING and (words[0] != "command" or words[1:2] in (["-v"], ["-V"]))


def _scripts_in(words: Sequence[str]) -> list[str]:
    return [name for name in map(basename, words) if name.endswith(ENDING)]


def _expanded(words: Sequence[str], assigned: Mapping[str, str]) -> list[str]:
    """Return the words with the words that the script assigns to a variable in place of it."""
    expanded: list[str] = []
    for word in words:
        found = VARIABLE.match(word.strip('"'))
        expanded += assigned[found[1]].split() if found and found[1] in assigned else [word]
    return expanded


def _finding(loss: _Loss, where: str) -> Finding:
    place = " of ".join([f" in line {loss.line}"] * bool(loss.line) + [loss.file] * bool(loss.file))
    place = place if loss.line or not loss.file else f" in {loss.file}"
    message = (
        f"torchrun starts without the hooks, because {loss.message}{place}: it would unpickle the unsigned state in its"
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
    at = launcher_at(words)
    before = list(words if at < 0 else words[:at])
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
    if not CONTAINERS.isdisjoint(names):
        return not {"run", "exec"}.isdisjoint(words)
    enters = not {"apptainer", "singularity"}.isdisjoint(names)
    return "sudo" in names or (enters and not {"-e", "--cleanenv", "-C", "--containall"}.isdisjoint(words))
