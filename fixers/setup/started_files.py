"""The Python files that a command starts, also through shell scripts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from fixers.frame.site import Tree
from fixers.setup.started_module import start_of
from fixers.sources.named_files import NamedFiles
from fixers.sources.shell_starts import LONGEST_TEXT, files_started, starts_unknown_files
from fixers.sources.shells import ENDINGS, SHEBANG, SHELLS, TEXT_FOLLOWS, is_shell, script_read
from fixers.sources.unparsable import LARGEST_TEXT

WORD = re.compile(rb"[\w./-]+")
SHELL_FILE = re.compile(rb".+(?:%s)\b" % "|".join(map(re.escape, ENDINGS)).encode())
READ = re.compile(rb"(?<![\w.-])((?:ba|z|da|k)?sh|\.|source|sbatch|qsub|bsub)[ \t]+([^\n;&|]{1,400})")
"""Matches a command that reads a shell script, and its arguments."""
OTHER_PYTHON = re.compile(
    rb"activate|\b(?:conda|mamba|micromamba|poetry|pdm|pixi|uvx?|apptainer|singularity|docker|podman|ssh)\b"
    rb"|\bPATH=|pip3?[ \t]+install|\bmodule[ \t]+load|[\w.}]/python"
)
"""Matches a command of a shell script that chooses another Python or installs packages."""
CHANGES_FOLDER = re.compile(rb"(?:^|[\s;&|(])(?:cd|pushd)[ \t]")
LONGEST_PATH = 400
MOST_STARTED = 50
"""The maximum number of started scripts that are searched among all files of the project."""
MOST_BYTES = LARGEST_TEXT
"""The maximum size of all shell scripts of a command."""


def python_files_of(tree: Tree, command: Sequence[str]) -> frozenset[str] | None:
    """Return the project's Python files that the command names, or that the shell scripts of the command start.

    Return None if they are unknown: there are none, or a shell script starts a file that only its arguments name.
    """
    paths = {path for path in tree.paths() if path.endswith(".py")}
    words = (each for word in command for each in (word, word.replace(".", "/") + ".py"))
    start = start_of(command, paths)
    found = {path for path in (*map(posixpath.normpath, words), start.path, *start.packages) if path in paths}
    meant, size = NamedFiles(paths), 0
    for path, text in shell_scripts_of(tree, command):
        size += len(text)
        if size > MOST_BYTES or starts_unknown_files(text):
            return None
        for script in files_started(path, text):
            named = meant.new(script, path)
            if named is None:
                named = meant.new(f"{posixpath.splitext(script)[0]}/__main__.py", path)
            found.update(named or ())
    return frozenset(found) or None


def scripts_of_shell(tree: Tree, command: Sequence[str]) -> tuple[str, ...]:
    """Return the Python files that the shell scripts of the command start with the interpreter of the command.

    Return () if a shell script may choose another interpreter. A name that may mean several files is left out.
    """
    texts = list(shell_scripts_of(tree, command))
    if sum(len(text) for _, text in texts) > MOST_BYTES or any(OTHER_PYTHON.search(text) for _, text in texts):
        return ()
    paths = [path for path in tree.paths() if path.endswith(".py")]
    moves = any(CHANGES_FOLDER.search(text) for _, text in texts)
    started = (script for shell, text in texts for script in sorted(files_started(shell, text)))
    names = (
        name
        for script in islice(started, MOST_STARTED)
        for name in (script, f"{posixpath.splitext(script)[0]}/__main__.py")
    )
    return tuple(dict.fromkeys(path for name in names for path in _only_file(name, paths, anywhere=moves)))


def _only_file(name: str, paths: Iterable[str], *, anywhere: bool) -> list[str]:
    """Return the file of this name, if it is the only one. With `anywhere`, files in all folders count."""
    named = [path for path in paths if path == name or (anywhere and path.endswith(f"/{name}"))]
    return named if len(named) == 1 else []


def shell_scripts_of(tree: Tree, command: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each shell script of the command, and of each shell script that these name.

    The path of a text after `-c` is "". No other script follows when the scripts have more than MOST_BYTES.
    """
    files = NamedFiles(tree.paths())
    waiting, seen, size = list(_shell_words(tree, command, files.known)), set[str](), 0
    while waiting and size <= MOST_BYTES:
        path, word = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        text = tree.read(path) if path else word.encode("utf-8", "surrogateescape")
        size += len(text)
        yield path, text
        waiting += [(file, "") for name in _shell_files_in(text) for file in files.new(name, path) or ()]
        waiting += [(file, "") for file in _scripts_without_ending(tree, text, path, files.known) if file not in seen]


def _shell_files_in(text: bytes) -> Iterable[str]:
    """Return the paths of shell scripts that the beginning of a text names, each once."""
    words = (word for word in WORD.findall(text[:LONGEST_TEXT]) if len(word) <= LONGEST_PATH)
    found = (SHELL_FILE.match(word) for word in dict.fromkeys(words))
    return dict.fromkeys(each[0].decode() for each in found if each)


def _scripts_without_ending(tree: Tree, text: bytes, path: str, every: Collection[str]) -> list[str]:
    """Return the shell scripts that the beginning of a text names without the ending of a shell script.

    They begin with `#!`, such as `./launch`, or a shell reads them, as in `. ./env` or `bash train.recipe`.
    """
    text, folders = text[:LONGEST_TEXT], ("", posixpath.dirname(path))
    names = {word for word in WORD.findall(text) if b"." not in word.rpartition(b"/")[2]}
    paths = {posixpath.normpath(posixpath.join(folder, name.decode())) for name in names for folder in folders}
    found = {each for each in paths.intersection(every) if SHEBANG.match(tree.read(each))}
    for reader, arguments in READ.findall(text):
        words = arguments.decode("utf-8", "surrogateescape").split()
        found.add(script_read([reader.decode(), *(word.strip("\"'()") for word in words)], every, folders))
    return sorted(found - {""})


def _shell_words(tree: Tree, command: Sequence[str], every: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, "") for each shell script in the command itself, and ("", text) for a text after `-c`."""
    before, after_shell, read = "", False, script_read(command, every)
    for number, word in enumerate(command):
        path = posixpath.normpath(word)
        if after_shell and TEXT_FOLLOWS.fullmatch(before):
            yield "", word
        elif path in every and (path == read or is_shell(path) or (not number and SHEBANG.match(tree.read(path)))):
            yield path, ""
        before = posixpath.basename(word)
        after_shell = after_shell or before in SHELLS
