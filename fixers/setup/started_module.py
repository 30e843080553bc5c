"""The script or module of the project that a command starts with the host's interpreter. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

from fixers.sources.module_files import INIT, SOURCE_ROOTS
from remote.protocol.dataclass import dataclass

PYTHONS = ("python", "python3")
LAUNCHERS = (*PYTHONS, "torchrun", "accelerate", "deepspeed")
MODULE_OPTIONS = ("-m", "--module")
MAIN = "__main__.py"


@dataclass(frozen=True)
class Start:
    """A start of a Python file.

    `path` is "" if the command starts no known file. `packages`: the files of the packages that Python loads before it.
    `roots`: the folders in which Python searches modules.
    """

    path: str = ""
    packages: tuple[str, ...] = ()
    roots: tuple[str, ...] = SOURCE_ROOTS


def start_of(command: Sequence[str], paths: Collection[str], search_path: Sequence[str] = ()) -> Start:
    """Return the file that the command starts: a script, a module after `-m`, or the `__main__.py` of a package.

    `search_path` are the project's folders in PYTHONPATH. Launchers that are modules, such as torch.distributed.run,
    are followed to the module or script that they start.
    """
    if not command or posixpath.basename(command[0]) not in LAUNCHERS:
        return Start()
    roots = tuple(dict.fromkeys((*search_path, *SOURCE_ROOTS)))
    options = [number for number, word in enumerate(command) if word in MODULE_OPTIONS]
    for number, word in enumerate(command[1:], 1):
        modules: Iterable[Start] = _modules(word, paths, roots) if options and number > options[0] else ()
        for found in (*_scripts(word, paths, roots, first=number == 1), *modules):
            return found
    return Start()


def _scripts(word: str, paths: Collection[str], roots: Sequence[str], *, first: bool) -> Iterator[Start]:
    """Yield the start of the script, or of the folder with a `__main__.py` if it is the first word after Python."""
    path = posixpath.normpath(word)
    if path in paths:
        yield Start(path, (), (posixpath.dirname(path), *roots))
    elif first and (main := posixpath.join(path, MAIN)) in paths:
        yield Start(main, (), (path, *roots))


def _modules(module: str, paths: Collection[str], roots: Sequence[str]) -> Iterator[Start]:
    """Yield the start of the module or package in each of the folders. Python searches the project's folder first."""
    parts = module.split(".")
    for root in dict.fromkeys(("", *roots)) if all(parts) else ():
        stem = posixpath.join(root, *parts)
        for path, above in ((f"{stem}.py", parts[:-1]), (posixpath.join(stem, MAIN), parts)):
            if path in paths:
                folders = accumulate(above, posixpath.join)
                inits = (posixpath.join(root, folder, INIT) for folder in folders)
                yield Start(path, tuple(each for each in inits if each in paths), tuple(dict.fromkeys(("", *roots))))
