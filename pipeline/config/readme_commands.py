"""The commands of README files that start a training script. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from posixpath import normpath

from pipeline.config.secret_values import SECRET_VALUE, secret_reason
from remote.protocol.dataclass import dataclass, field
from remote.protocol.text import file_lines

LAUNCHERS = ("python ", "python3 ", "torchrun ", "accelerate launch ", "deepspeed ")
SETTINGS = (".yaml", ".yml", ".json", ".toml", ".ini", ".cfg")
"""The endings of files that a program reads, and that Python cannot run."""
FENCES = ("```", "~~~")
OTHER_PROGRAMS = frozenset(
    {"cat", "cd", "chmod", "code", "cp", "curl", "cut", "diff", "echo", "ed", "edit", "emacs", "export", "git", "grep"}
    | {"head", "less", "ln", "ls", "mkdir", "more", "mv", "nano", "open", "rm", "rsync", "scp", "sed", "source", "ssh"}
    | {"tail", "touch", "vi", "vim", "wget"}
)
"""Programs that start no training, whatever file they get."""
MODULE_OPTIONS = ("-m", "--module")
MAX_COMMAND = 4000
"""Longer commands (in characters) are not split into words: the time grows with the square of the length."""
LONGEST_PAGE = 200_000
CARDS = "CUDA_VISIBLE_DEVICES"
RESERVED = "HALFSTEP_"
VARIABLE = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
VARIABLES = re.compile(r"(?:[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|[^\s\"']*)\s+)*", re.ASCII)
FILL_IN = re.compile(r"[<>$|&;{}\[\]*`]|\.\.\.|path/to|your|#|[^ -~\xa0-\ufffc]", re.IGNORECASE)
"""Matches a placeholder, syntax of a shell, or characters that JSON and YAML escape differently."""
FILL_IN_NAME = re.compile(r"(?<!\w)(?:[A-Z\d]+_)*(?:DIR|PATH|FOLDER|FILE|NAME)(?![\w=])", re.ASCII)
"""Matches a placeholder such as DATA_DIR."""


@dataclass(frozen=True)
class ReadmeCommand:
    """A command of a README at `place`, the file and the first line. `variables` are set before the command.

    `words[:start]` is the launcher with the script, without the arguments of the script.
    """

    place: str
    words: tuple[str, ...]
    start: int
    variables: Mapping[str, str] = field(default_factory=dict)

    def is_complete(self) -> bool:
        """Return True if the command needs no editing."""
        return _needs_no_editing(self.words)

    def launcher(self) -> tuple[str, ...]:
        return self.words[: self.start]


@dataclass(frozen=True)
class Start:
    """The command of a config. `places` are the README commands for the same script that have other arguments.

    `variables` are the environment variables of the command. `omitted` are the names of variables of the README that
    no config should contain with this value: cards, secrets, placeholders and variables of halfstep.
    """

    argv: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    places: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()


def choose_start(script: str, module: str, plain: tuple[str, ...], pages: Mapping[str, bytes]) -> Start:
    """Return the README command that starts the script: the only complete one, else the launcher that all of them use.

    Return the `plain` command if the README has no such command, or several launchers.
    """
    found = [each for path, page in pages.items() for each in _commands(path, page, script, module)]
    complete = {each.words: each for each in reversed(found) if each.is_complete()}
    if len(complete) == 1:
        (words,) = complete
        return _start(words, [each for each in found if each.words == words])
    launcher = _shared_launcher(found)
    places = tuple(dict.fromkeys(each.place for each in found if each.words not in (launcher, plain)))
    return _start(launcher, found, places) if launcher else Start(plain, places=places)


def _shared_launcher(found: Iterable[ReadmeCommand]) -> tuple[str, ...]:
    """Return the launcher of all of the commands, or () if they differ or it needs editing."""
    launchers = {each.launcher() for each in found}
    launcher = launchers.pop() if len(launchers) == 1 else ()
    return launcher if _needs_no_editing(launcher) else ()


def _start(argv: tuple[str, ...], found: Iterable[ReadmeCommand], places: tuple[str, ...] = ()) -> Start:
    """Return the start with the variables that all of the commands set to the same value."""
    first, *others = [each.variables for each in found]
    shared = {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
    kept = {name: value for name, value in shared.items() if _is_portable(name, value)}
    return Start(argv, kept, places, tuple(name for name in shared if name not in kept))


def _is_portable(name: str, value: str) -> bool:
    """Return True if a config may set the variable to this value: no secret, placeholder or choice of cards.

    halfstep itself sets the variables that begin with HALFSTEP_.
    """
    reserved = name == CARDS or name.upper().startswith(RESERVED)
    return not reserved and not secret_reason(name, value) and _needs_no_editing([value])


def _needs_no_editing(words: Iterable[str]) -> bool:
    """Return True if no word is a placeholder, has the syntax of a shell, or looks like a secret."""
    rejected = (FILL_IN, FILL_IN_NAME, SECRET_VALUE)
    return not any(pattern.search(word) for word in words for pattern in rejected)


def _commands(path: str, page: bytes, script: str, module: str) -> Iterator[ReadmeCommand]:
    """Yield the commands of the page that start the script, by its path or as this module."""
    for number, line, is_code in _joined_lines(page):
        text = line.strip().removeprefix("$").strip()
        if len(text) > MAX_COMMAND or not _may_start(VARIABLES.sub("", text, count=1), script, is_code=is_code):
            continue
        try:
            words = shlex.split(text)
        except ValueError:  # prose that contains an apostrophe and begins like a command
            continue
        assigned = [(found[1], found[2]) for found in map(VARIABLE.fullmatch, words[: _first_program(words)]) if found]
        words = words[len(assigned) :]
        if end := _end_of_start(words, script, module):
            yield ReadmeCommand(f"{path}:{number}", tuple(words), end, dict(assigned))


def _may_start(text: str, script: str, *, is_code: bool) -> bool:
    """Return True if the text begins with a launcher, or with any program if it is code that names a settings file."""
    if not script.endswith(SETTINGS):
        return text.startswith(LAUNCHERS)
    return is_code and script in text and text.partition(" ")[0] not in OTHER_PROGRAMS


def _joined_lines(page: bytes) -> Iterator[tuple[int, str, bool]]:
    """Yield each line, its number, and True if it is in a block of code or after a prompt.

    Lines that end in a backslash are joined with the next line.
    """
    begin = 1
    parts: list[str] = []
    is_code = False
    for number, line in enumerate(file_lines(page.decode("utf-8", "replace")), 1):
        text = line.rstrip()
        is_code ^= text.lstrip().startswith(FENCES)
        parts.append(text.removesuffix("\\"))
        if not text.endswith("\\"):
            yield begin, " ".join(parts), is_code or parts[0].startswith(("$ ", "    "))
            begin, parts = number + 1, []
    if parts:
        yield begin, " ".join(parts), is_code


def _first_program(words: list[str]) -> int:
    """Return the index of the first word that is not an assignment."""
    return next((index for index, word in enumerate(words) if not VARIABLE.fullmatch(word)), len(words))


def _end_of_start(words: list[str], script: str, module: str) -> int:
    """Return the number of words up to the script, module or settings file, or 0 if the command has another script."""
    for index, (before, word) in enumerate(pairwise(words), 2):
        if script.endswith(SETTINGS):
            if script in (normpath(word), normpath(word.partition("=")[2])):
                return index
            continue
        if before in MODULE_OPTIONS and word == module:
            return index
        if word.endswith(".py"):
            return index if normpath(word) == script else 0
    return 0
