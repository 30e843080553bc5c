"""Find each torchrun that a command starts without the hooks and that would unpickle the unsigned state in its store.

On the host, such a process is recognised only after its start. Until then, another user of the host could run code in
it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from fixers.sources.words import Command, Script, Word
from remote.protocol.dataclass import dataclass
from remote.protocol.findings import Finding, Report, Severity
from remote.protocol.launchers import ELASTIC, isolating_flag, launcher_at, unpickles_state

CHECK = "unsigned-processes"
PATH = "PYTHONPATH"
KEY = "HALFSTEP_KEY_FILE"
ELSEWHERE = re.compile(
    rb"(?<![\w.-])(?:(?:docker|podman)(?:-\w+)?|nerdctl|apptainer|singularity|enroot|shifter|kubectl|lxc|incus|sbatch|srun"
    rb"|salloc|qsub|bsub|flux|jsrun|sudo|su|doas|runuser|pkexec|ssh|tmux|screen|systemd-run)(?![\w.-])"
)
"""Matches a program that may start other programs outside of the job's process tree, or without its variables."""
COMMENT = re.compile(rb"(?m)(?:^|(?<=\s))#.*$")
STARTS_NOTHING = frozenset(
    {"echo", "printf", "pkill", "pgrep", "killall", "kill", "which", "type", "hash", "grep", "pip", "command"}
)
LONGEST_SCRIPT = 256 * 2**10
MOST_SCRIPTS = 100
VARIABLE = re.compile(r"\$\{?(\w+)")
MOST_CALLS = 8
MOST_WORDS = 1000
MOST_TEXTS = 4
DEEPEST = 3
"""The number of scripts within each other, as in `bash -c "bash -c '...'"`."""
ASSIGNED = re.compile(r"""[^\s"'()\\]+""")
"""Matches a word of an assigned text, which may be an array or have several lines."""
SOURCES = (".", "source")
SHELL_STATE = ("unset", *SOURCES)
CONTAINER = re.compile(r"(?:docker|podman)(?:-\w+)?|nerdctl|kubectl|lxc|incus")
REMOVES = frozenset({"sudo", "doas", "pkexec", "ssh", "systemd-run"})
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
    """A shell script. `assigned` are the first words of the text that it assigns last to each variable."""

    path: str
    data: bytes
    script: Script
    assigned: Mapping[str, tuple[str, ...]]

    @property
    def name(self) -> str:
        """The name of the file, without its folder."""
        return basename(self.path)


class _Known:
    """What is known of the scripts of a command, by the names of their files.

    `before`: what is lost when the script starts. `after`: what is lost for a script that sources it (`. ./path.sh`).
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(names)
        self.before: dict[str, _Loss] = {}
        self.after: dict[str, _Loss] = {}

    def scripts_in(self, words: Sequence[str]) -> list[str]:
        """Return the scripts that the words name."""
        return [name for name in map(basename, words) if name in self.names]

    def size(self) -> int:
        return len(self.before) + len(self.after)


def judge_launchers(tree: Tree, command: Sequence[str]) -> Report:
    """Return an error for the torchrun of the command, and for the first one in each shell script that it starts.

    Scripts of more than LONGEST_SCRIPT bytes are not read.
    """
    loss = _lost_by_words(command)
    findings = [_finding(loss, "train.command")] if loss is not None and unpickles_state(command) else []
    found_in_texts = _judge_texts(command, loss, 0) if loss is not None else ()
    findings += [replace(one, where="train.command") for one in islice(found_in_texts, 1)]
    found = islice(shell_scripts_of(tree, command), MOST_SCRIPTS)
    parsed = [_parsed(path or "train.command", data) for path, data in found if len(data) <= LONGEST_SCRIPT]
    return Report((*findings, *_judge_scripts([one for one in parsed if one is not None], command)))


def judge_blind_proof(tree: Tree, command: Sequence[str], *, saw_torch: bool) -> Report:
    """Return an error if a torchrun may have started without the hooks, for a proof that saw no torchrun with them.

    The command or one of its scripts then contains torchrun. If the proof saw a Python process with torch, which may be
    the whole training, it also contains a program that starts others elsewhere or without the variables.
    """
    texts = [" ".join(command).encode("utf-8", "surrogateescape")]
    texts += [COMMENT.sub(b"", data) for _, data in islice(shell_scripts_of(tree, command), MOST_SCRIPTS)]
    programs = sorted({found[0].decode() for text in texts for found in ELSEWHERE.finditer(text)})
    if (saw_torch and not programs) or not any(name.encode() in text for text in texts for name in ELASTIC):
        return Report()
    message = (
        f"the proof saw no torchrun with the hooks, but the command contains {', '.join(['torchrun', *programs])}: a"
        " torchrun without the hooks may unpickle the unsigned state in its store, so another user of the host could"
        " run code under your account"
    )
    hint = (
        "start torchrun with all variables and not in a container; or, if no other user can log in to the host, set"
        f' env: {{{KEY}: ""}} in the config'
    )
    return Report((Finding(CHECK, Severity.ERROR, message, where="train.command", hint=hint),))


def _parsed(path: str, data: bytes) -> _Parsed | None:
    with suppress(Unparsable, RecursionError):
        script = scan_shell(data)
        every = (assignment for command in script.commands for assignment in command.assignments)
        words = {one.name: tuple(islice(ASSIGNED.finditer(one.value.raw), MOST_WORDS)) for one in every}
        return _Parsed(path, data, script, {name: tuple(each[0] for each in found) for name, found in words.items()})
    return None


def _judge_scripts(scripts: Sequence[_Parsed], command: Sequence[str]) -> list[Finding]:
    """Judge the scripts of the command. A script inherits what another script lost before it starts this script."""
    known = _Known(each.name for each in scripts)
    if loss := _lost_by_words(command):
        known.before |= dict.fromkeys(known.scripts_in(command), loss)
    findings: list[Finding] = []
    for _ in range(MOST_CALLS):
        size = known.size()
        findings = [one for each in scripts for one in islice(_judge(each, known.before.get(each.name), known), 1)]
        if known.size() == size:
            break
    return findings


def _judge(parsed: _Parsed, lost: _Loss | None, known: _Known, depth: int = 0) -> Iterator[Finding]:
    """Yield an error for each torchrun without the hooks, and add the scripts that start without them."""
    values, data = values_in(parsed.script, ()), parsed.data
    for command in parsed.script.commands:
        words = [_text_of(word) for word in command.words]
        own = _lost_by_assignments(command, values, declares=words[:1] != [] and words[0] in DECLARATIONS)
        if _changes_shell(words):
            found_loss = own or _lost_for_all(command, words, known)
            lost = found_loss.located(data) if found_loss is not None else lost
            _hand_to_sourced(words, lost, parsed, known)
        elif not _starts_nothing(words) and (loss := own or _lost_by_words(_expanded(words, parsed.assigned)) or lost):
            found = _judge_start(words, loss.located(data), parsed, known, depth)
            yield from (replace(one, where=f"{parsed.path}:{line_of(data, command.words[0].start)}") for one in found)
    if lost is not None:
        known.after.setdefault(parsed.name, _handed_on(lost, parsed))


def _text_of(word: Word) -> str:
    """Return the word without its quotes, and with its variables if it has any."""
    return word.raw.strip('"') if word.text is None else word.text


def _changes_shell(words: Sequence[str]) -> bool:
    return not words or words[0] in DECLARATIONS or words[0] in SHELL_STATE


def _lost_for_all(command: Command, words: Sequence[str], known: _Known) -> _Loss | None:
    """Return the loss by `unset` or by a sourced script, which concerns all later commands."""
    if words[:1] == ["unset"] and PATH in words:
        return _Loss("PYTHONPATH is removed", "remove the `unset`", command.words[0].start)
    if words and words[0] in SOURCES:
        return next(filter(None, map(known.after.get, known.scripts_in(words))), None)
    return None


def _hand_to_sourced(words: Sequence[str], lost: _Loss | None, parsed: _Parsed, known: _Known) -> None:
    if lost is not None and words and words[0] in SOURCES:
        for name in known.scripts_in(words):
            known.before.setdefault(name, _handed_on(lost, parsed))


def _judge_start(words: Sequence[str], loss: _Loss, parsed: _Parsed, known: _Known, depth: int) -> Iterator[Finding]:
    """Judge a command that starts with this loss."""
    for name in known.scripts_in(words):
        known.before.setdefault(name, _handed_on(loss, parsed))
    if unpickles_state(_expanded(words, parsed.assigned)):
        yield _finding(loss, parsed.path)
    if depth < DEEPEST:
        yield from _judge_texts(words, loss, depth + 1)


def _handed_on(loss: _Loss, parsed: _Parsed) -> _Loss:
    return loss if loss.file else replace(loss, file=parsed.path)


def _judge_texts(words: Sequence[str], loss: _Loss, depth: int) -> Iterator[Finding]:
    """Judge the words that are shell scripts themselves, as after `docker run IMAGE bash -c`."""
    texts = [word for word in words if " " in word and any(name in word for name in ELASTIC)]
    for text in texts[:MOST_TEXTS]:
        parsed = _parsed("", text.encode("utf-8", "surrogateescape"))
        yield from _judge(parsed, loss, _Known(), depth) if parsed is not None else ()


def _starts_nothing(words: Sequence[str]) -> bool:
    """Return True for a command that only names torchrun, such as `command -v torchrun`, unlike `command torchrun`."""
    return words[0] in STARTS_NOTHING and (words[0] != "command" or words[1:2] in (["-v"], ["-V"]))


def _expanded(words: Sequence[str], assigned: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the first words, with the words that the script assigns to a variable in place of it."""
    expanded: list[str] = []
    for word in words:
        found = VARIABLE.match(word)
        expanded += assigned.get(found[1], (word,)) if found else (word,)
        if len(expanded) > MOST_WORDS:
            break
    return expanded[:MOST_WORDS]


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
        return any("ALL" not in word[9:].split(",") for word in words if word.startswith("--export="))
    if "env" in names:
        return not {"-", "-i", "--ignore-environment", PATH, f"-u{PATH}", f"--unset={PATH}"}.isdisjoint(words)
    if any(map(CONTAINER.fullmatch, names)):
        return not {"run", "exec"}.isdisjoint(words)
    enters = not {"apptainer", "singularity"}.isdisjoint(names)
    cleans = enters and not {"-e", "--cleanenv", "-C", "--containall"}.isdisjoint(words)
    logs_in = "su" in names and not {"-", "-l", "--login"}.isdisjoint(words)
    return cleans or logs_in or not REMOVES.isdisjoint(names)
