"""The training programs of a project: each script or notebook that trains, with every file that it imports."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cached_property
from posixpath import basename, dirname, splitext

from fixers.frame.modules import Module
from fixers.sources.module_files import ModuleIndex
from remote.protocol.dataclass import dataclass


@dataclass(frozen=True, eq=False)
class Program:
    """A script or notebook (`entry`), and all modules that it imports (`modules`). `modules` includes the entry.

    `started`: a config starts the script.
    """

    entry: str
    modules: tuple[Module, ...]
    started: bool = False

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(module.path for module in self.modules)

    @property
    def trains(self) -> bool:
        return any(module.trains for module in self.modules)


def find_programs(
    modules: Iterable[Module], started: Iterable[str] = (), launched: Collection[str] = ()
) -> tuple[Program, ...]:
    """Return the programs that train.

    `started`: scripts that a config starts; each of them counts as a program that trains. `launched`: scripts that
    commands and documents start.

    If only the main block of a module trains, and a training program imports the module, the main block is an example
    that no program runs, unless a command starts it. A module that trains, but that no program imports, also counts as
    a program: the project does not contain the script that starts it.
    """
    by_path = {module.path: module for module in modules}
    graph = _ImportGraph(by_path)
    imported = graph.imported_scripts() - frozenset(launched)
    entries = [each for each in by_path.values() if each.path in started or _may_start(each, imported)]
    programs = [Program(each.path, graph.closure(each, _evaluates), each.path in started) for each in entries]
    examples = _examples(graph, launched)
    found = [each for each in programs if each.started or (each.trains and each.entry not in examples)]
    reached = {path for program in found for path in program.paths}
    return (*found, *_unstarted(by_path, reached | examples, graph))


def loaded_by(program: Program) -> frozenset[str]:
    """Return the files that are imported whenever the program starts: not those that functions or branches import."""
    modules = {each.path: each for each in program.modules}
    loaded = _ImportGraph(modules).closure(modules[program.entry], lambda _: True)
    return frozenset(each.path for each in loaded)


def programs_at(paths: Iterable[str], modules: Iterable[Module]) -> tuple[Program, ...]:
    """Return a program for each of the paths, whether it trains or not."""
    by_path = {module.path: module for module in modules}
    graph = _ImportGraph(by_path)
    return tuple(Program(path, graph.closure(by_path[path], _evaluates)) for path in paths if path in by_path)


def closures(paths: Iterable[str], modules: Iterable[Module]) -> dict[str, frozenset[str]]:
    """Return, for each of the paths, the file and all files that it imports, directly or indirectly."""
    return {each.entry: each.paths for each in programs_at(paths, modules)}


def _examples(graph: _ImportGraph, launched: Container[str]) -> frozenset[str]:
    """Return the modules of which only the main block trains, and that another file imports which trains."""
    alone = {each.path for each in graph.modules.values() if each.main_trains and each.path not in launched}
    training = (each for each in graph.modules.values() if alone and each.trains and not each.main_trains)
    return frozenset(part.path for each in training for part in graph.closure(each, _evaluates) if part.path in alone)


def _unstarted(modules: Mapping[str, Module], reached: set[str], graph: _ImportGraph) -> Iterator[Program]:
    """Yield the modules that train and that no program contains."""
    for module in modules.values():
        if module.trains and not module.infers and module.path not in reached:
            yield Program(module.path, graph.closure(module, _evaluates))


def _may_start(module: Module, imported: Container[str]) -> bool:
    """Return True for a script that may train. The main block of an imported module is usually only a test."""
    return module.starts and (module.trains or not (module.infers or module.path in imported))


def _evaluates(module: Module) -> bool:
    """Return True for a module of evaluation: a training runs none of its functions that import other modules."""
    return module.infers and not (module.trains or module.starts)


def imports_any(program: Program, libraries: Collection[str]) -> bool:
    return any(name.partition(".")[0] in libraries for module in program.modules for name in module.imports)


class _ImportGraph:
    """The modules of a project, and which of them each one imports."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.imports: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        self.index = ModuleIndex(modules)

    def imported_scripts(self) -> frozenset[str]:
        """Return the modules that can be started, do not train, and are imported by another module."""
        scripts = {each.path for each in self.modules.values() if each.starts and not each.trains}
        names = {splitext(basename(path))[0] for path in scripts}
        near = (each for each in self.modules.values() if any(_last(name) in names for name in each.imports))
        return frozenset(path for each in near for path in self.imported_by(each) if path != each.path) & scripts

    def closure(self, entry: Module, defers: Callable[[Module], bool] = lambda _: False) -> tuple[Module, ...]:
        """Return the module and all modules that it imports, directly or indirectly.

        `defers`: returns True for a module whose imports in functions and branches are ignored.
        """
        found = {entry.path: entry}
        new = [entry]
        while new:
            module = new.pop()
            for path in self.imported_by(module, module.deferred if defers(module) else ()):
                if path not in found:
                    found[path] = self.modules[path]
                    new.append(self.modules[path])
        return tuple(found.values())

    def imported_by(self, module: Module, without: tuple[str, ...] = ()) -> tuple[str, ...]:
        """Return the files that the module imports, except those of the names `without`.

        The result is cached, because many programs share most of their modules.
        """
        known = self.imports.get((module.path, without))
        if known is None:
            folder, names = dirname(module.path), (name for name in module.imports if name not in without)
            files = (path for name in names for path in self.index.files_of(name, folder))
            known = self.imports[module.path, without] = tuple(dict.fromkeys(files))
        return known


def _last(name: str) -> str:
    return name.rpartition(".")[2]
