"""The Python files that a command starts, also through shell scripts."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from fixers.frame.site import Tree
from fixers.sources.commands import is_shell
from fixers.sources.launched import files_named
from fixers.sources.shell_starts import files_started, starts_unknown_files

SHELLS = ("sh", "bash", "zsh", "dash", "ksh")
TEXT_FOLLOWS = re.compile(r"-\w*c")
SHEBANG = re.compile(rb"#![^\n]{0,80}\b(?:ba|z|da|k)?sh\b")
SHELL_FILE = re.compile(rb"[\w./-]{1,400}\.(?:sh|bash|zsh|ksh|slurm|sbatch|job)\b")


def python_files_of(tree: Tree, command: Sequence[str]) -> frozenset[str] | None:
    """Return the project's Python files that the command names, or that the shell scripts of the command start.

    Return None if they are unknown: there are none, or a shell script starts a file that only its arguments name.
    """
    paths = {path for path in tree.paths() if path.endswith(".py")}
    words = (each for word in command for each in (word, word.replace(".", "/") + ".py"))
    found = {path for path in map(posixpath.normpath, words) if path in paths}
    for path, text in shell_scripts_of(tree, command):
        if starts_unknown_files(text):
            return None
        for script in files_started(path, text):
            found.update(_files_meant(script, path, paths))
    return frozenset(found) or None


def shell_scripts_of(tree: Tree, command: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each shell script of the command, and of each shell script that these name.

    The path of a text after `-c` is "".
    """
    every = frozenset(tree.paths())
    new, seen = list(_shell_texts(tree, command, every)), set[str]()
    while new:
        path, text = new.pop()
        if path in seen:
            continue
        seen.add(path)
        yield path, text
        named = (each.decode() for each in SHELL_FILE.findall(text))
        new += [(file, tree.read(file)) for each in named for file in _files_meant(each, path, every)]


def _shell_texts(tree: Tree, command: Sequence[str], every: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the path and the content of each shell script in the command itself."""
    for number, word in enumerate(command):
        path = posixpath.normpath(word)
        before = [posixpath.basename(each) for each in command[:number]]
        if {*before} & {*SHELLS} and TEXT_FOLLOWS.fullmatch(before[-1]):
            yield "", word.encode("utf-8", "surrogateescape")
        elif path in every and (is_shell(path) or (not number and SHEBANG.match(tree.read(path)))):
            yield path, tree.read(path)


def _files_meant(script: str, path: str, known: Collection[str]) -> frozenset[str]:
    """Return the files that a shell script may mean, relative to its own folder and to that of the project."""
    package = f"{posixpath.splitext(script)[0]}/__main__.py"
    return frozenset(
        file
        for folder in dict.fromkeys((path, ""))
        for file in files_named(script, folder, known) or files_named(package, folder, known)
    )
