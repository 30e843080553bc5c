"""Find the project files that a command uses: scripts, imported modules, settings files. Pure."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from fixers.frame.site import Tree
from fixers.frame.text_files import read_text_file
from fixers.setup.started_files import MOST_BYTES
from fixers.setup.started_module import MODULE_OPTIONS
from fixers.sources.config_files import read_config, reads_config
from fixers.sources.module_files import files_of, imported_names
from fixers.sources.nodes import Scalar, walk
from fixers.sources.shell_starts import files_started
from fixers.sources.shell_values import Values, first_values, texts_of, values_in
from fixers.sources.shell_words import scan_shell
from fixers.sources.shells import SHEBANG, SHELLS, TEXT_FOLLOWS, is_shell, script_read
from fixers.sources.syntax import parse_python
from fixers.sources.unparsable import Unparsable
from fixers.sources.words import Command, Word
from pipeline.judgements.left_out import OUTPUT
from pipeline.judgements.path_literals import StartSettings, option_name
from pipeline.judgements.path_text import path_in
from pipeline.judgements.path_uses import PathUse, paths_in_python
from pipeline.judgements.read_by_shell import ReadByShell, read_by
from remote.protocol.dataclass import dataclass, field

MOST_FILES = 400
TESTS = frozenset({"[", "[[", "test", "echo", "printf", "mkdir"})
OWN_FOLDER = re.compile(rb"\$\(dirname[ \t][^()\n]{0,80}\)/")
"""Matches the folder of a shell script in the path of a file next to it."""
COMMAND = "command"
"""The file name for shell text inside the command."""


@dataclass
class Reached:
    """The files that are still to be read, and the uses of paths that were found so far."""

    paths: frozenset[str]
    recognise: Callable[[str], str]
    uses: list[PathUse] = field(default_factory=list)
    entered: set[str] = field(default_factory=set)
    shell_scripts: set[str] = field(default_factory=set)
    waiting: list[tuple[str, StartSettings, bool]] = field(default_factory=list)
    options_read: frozenset[str] = frozenset()
    shell_bytes: int = 0

    def add(self, path: str, settings: StartSettings, *, started: bool = False) -> None:
        """Add a project file to the files that are still to be read."""
        path = posixpath.normpath(path)
        if path in self.paths and path not in self.entered and len(self.entered) < MOST_FILES:
            self.entered.add(path)
            self.waiting.append((path, settings, started))


@dataclass(frozen=True)
class PathsReached:
    """The uses of paths, sorted by file, and the options whose value the script certainly reads."""

    uses: tuple[PathUse, ...] = ()
    options_read: frozenset[str] = frozenset()


def paths_reached(
    tree: Tree, argv: Sequence[str], environment: Iterable[str], recognise: Callable[[str], str] = path_in
) -> PathsReached:
    """Return the paths in the scripts of a command, and in the modules and settings files that the scripts use.

    `environment` are the names of the variables that are set. `recognise` returns the path in a text, or "".
    """
    reached = _read_all(tree, argv, environment, recognise)
    uses = sorted(reached.uses, key=lambda use: (use.file, use.line, use.path))
    return PathsReached(tuple(uses), reached.options_read)


def files_reached(tree: Tree, argv: Sequence[str]) -> frozenset[str]:
    """Return the project files that the command uses: scripts, imported modules, settings files."""
    return frozenset(_read_all(tree, argv, (), no_path_in).entered)


def no_path_in(_: str) -> str:
    """Return "", which is the path in any text if only the files are needed."""
    return ""


def _read_all(tree: Tree, argv: Sequence[str], environment: Iterable[str], recognise: Callable[[str], str]) -> Reached:
    """Read the files that the command uses."""
    reached = Reached(frozenset(tree.paths()), recognise)
    _enter(reached, argv, StartSettings(environment=frozenset(environment)), started=True)
    while reached.waiting:
        path, settings, started = reached.waiting.pop()
        try:
            data = read_text_file(tree, path)
        except OSError:  # too large to be analysed
            continue
        if path.endswith(".py"):
            _read_python(reached, path, data, settings, started=started)
        elif reads_config(path):
            _read_settings(reached, path, data, settings)
        elif is_shell(path) or path in reached.shell_scripts or SHEBANG.match(data):
            _read_shell(reached, path, data, settings)
    return reached


def _enter(reached: Reached, argv: Sequence[str], settings: StartSettings, *, started: bool) -> None:
    """Add the files that a command names.

    With `started`, the Python files among them are scripts that the command runs.
    """
    options = frozenset(option_name(word) for word in argv if word.startswith("--"))
    settings = replace(settings, options=settings.options | options)
    reached.shell_scripts.add(script_read(argv, reached.paths))
    for before, word in zip(("", *argv), argv, strict=False):
        if TEXT_FOLLOWS.fullmatch(before) and posixpath.basename(argv[0]) in SHELLS:
            _read_shell(reached, COMMAND, word.encode("utf-8", "surrogateescape"), settings)
        for name in (f"{word}.__main__", word) if before in MODULE_OPTIONS else ():
            reached.add(next(files_of(name, "", reached.paths), ""), settings, started=started)
        for part in (word, word.partition("=")[2]):
            if part:
                reached.add(part, settings, started=started and part.endswith(".py"))


def _read_python(reached: Reached, path: str, data: bytes, settings: StartSettings, *, started: bool) -> None:
    try:
        tree = parse_python(data)
        if reached.recognise is not no_path_in:
            uses, options = paths_in_python(path, tree, settings, started=started, recognise=reached.recognise)
            reached.uses.extend(uses)
            reached.options_read |= options
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        for name in imported_names(node):
            for file in files_of(name, posixpath.dirname(path), reached.paths):
                reached.add(file, settings)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and reads_config(node.value):
            reached.add(node.value, settings)


def _read_shell(reached: Reached, path: str, data: bytes, settings: StartSettings) -> None:
    reached.shell_bytes += len(data)
    if reached.shell_bytes > MOST_BYTES:
        return
    try:
        script = scan_shell(data)
    except Unparsable:
        return
    values = values_in(script, settings.environment)
    read = read_by(script, data)
    for started in files_started(path, OWN_FOLDER.sub(b"", data)):
        reached.add(started, settings)
    for command in script.commands:
        texts = [texts_of(word, values, settings.environment) for word in command.words]
        for number in range(max(map(len, texts), default=0)):
            words = [each[min(number, len(each) - 1)] if each else "" for each in texts]
            _enter(reached, words, settings, started=False)
        if not (texts and texts[0] and texts[0][0] in TESTS):
            reached.uses.extend(_uses_of(command, path, settings, values, reached, read))


def _uses_of(
    command: Command, file: str, settings: StartSettings, values: Values, reached: Reached, read: ReadByShell
) -> Iterator[PathUse]:
    """Yield the uses of paths in a command of the shell script `file`."""
    for text, start, option in _texts(command, settings, values, reached):
        found = reached.recognise(text)
        if not found or found in read.created:
            continue
        absolute = bool(path_in(text))
        if absolute or not OUTPUT.search(option):
            certain = not absolute and read.is_certain(found, option, command, start)
            yield PathUse(found, file, read.data.count(b"\n", 0, start) + 1, certain)


def _texts(
    command: Command, settings: StartSettings, values: Values, reached: Reached
) -> Iterator[tuple[str, int, str]]:
    """Yield each text that may be a path, its position, and the name of its variable or option."""
    for assignment in command.assignments:
        if assignment.name not in settings.environment:
            for word in (assignment.value, *assignment.items):
                for text in _texts_of(word, settings, values, reached):
                    yield text, word.start, assignment.name
    for before, word in zip(("", *(word.text or "" for word in command.words)), command.words, strict=False):
        for text in _texts_of(word, settings, values, reached):
            yield text, word.start, option_name(before) if before.startswith("-") else ""
            if text.startswith("-") or "=" in text:
                name, _, value = text.partition("=")
                yield value, word.start, option_name(name)


def _texts_of(word: Word, settings: StartSettings, values: Values, reached: Reached) -> tuple[str, ...]:
    """Return the texts of a word, or none if it begins with a variable whose own value is a path."""
    if any("/" in value and reached.recognise(value) for value in first_values(word, values)):
        return ()
    return texts_of(word, values, settings.environment)


def _read_settings(reached: Reached, path: str, data: bytes, settings: StartSettings) -> None:
    try:
        nodes = read_config(path, data)
    except Unparsable:
        return
    for node in nodes:
        for _, key, value in walk(node):
            name = key.text if isinstance(key, Scalar) else ""
            if isinstance(value, Scalar) and name not in settings.options and (found := reached.recognise(value.text)):
                reached.uses.append(PathUse(found, path, value.span.line))
