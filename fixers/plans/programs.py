"""The training programs of a project: each script or notebook that trains, with every file that it imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from posixpath import basename, dirname, join, normpath, splitext

from fixers.frame.modules import Module, always_imported
from fixers.sources.lines import lines_with

PATH = re.compile(rb"[\w./-]+")
SCRIPT = re.compile(rb".+\.py\b")
STARTED_MODULE = re.compile(rb"(?:^|\s)-m[ \t]+([\w.]+)", re.MULTILINE)


@dataclass(frozen=True, eq=False)
class Program:
    """A script or notebook (`entry`), and all modules that it imports (`modules`). `modules` includes the entry."""

    entry: str
    modules: tuple[Module, ...]

    @cached_property
    def paths(self) -> frozenset[str]:
        return frozenset(module.path for module in self.modules)

    @property
    def trains(self) -> bool:
        return any(module.trains for module in self.modules)


def find_programs(modules: Iterable[Module], started: Iterable[str] = ()) -> tuple[Program, ...]:
    """Return the programs that train.

    `started`: scripts that a config starts; each of them counts as a program that trains.

    A module that trains, but that no program imports, also counts as a program: the project does not contain the
    script that starts it.
    """
    by_path = {module.path: module for module in modules}
    resolver = _Resolver(by_path)
    imported = resolver.imported_scripts()
    entries = [each for each in by_path.values() if each.path in started or _may_start(each, imported)]
    programs = [Program(each.path, resolver.closure(each)) for each in entries]
    found = [each for each in programs if each.entry in started or each.trains]
    reached = {path for program in found for path in program.paths}
    return (*found, *_unstarted(by_path, reached, resolver))


def loaded_by(program: Program, read: Callable[[str], bytes]) -> frozenset[str]:
    """Return the files that are imported whenever the program starts: not those that functions or branches import."""
    modules = {
        each.path: replace(each, imports=always_imported(each.path, read(each.path))) for each in program.modules
    }
    return frozenset(each.path for each in _Resolver(modules).closure(modules[program.entry]))


def importing(paths: Iterable[str], targets: Container[str], modules: Iterable[Module]) -> frozenset[str]:
    """Return those of the paths whose modules import one of the targets, directly or indirectly."""
    by_path = {module.path: module for module in modules}
    resolver = _Resolver(by_path)
    parts = {path: resolver.closure(by_path[path]) for path in paths if path in by_path}
    return frozenset(path for path, own in parts.items() if any(part.path in targets for part in own))


def _unstarted(modules: Mapping[str, Module], reached: set[str], resolver: _Resolver) -> Iterator[Program]:
    """Yield the modules that train and that no program contains."""
    for module in modules.values():
        if module.trains and not module.infers and module.path not in reached:
            yield Program(module.path, resolver.closure(module))


def _may_start(module: Module, imported: Container[str]) -> bool:
    """Return True for a script that may train. The main block of an imported module is usually only a test."""
    return module.starts and (module.trains or not (module.infers or module.path in imported))


def imports_any(program: Program, libraries: Collection[str]) -> bool:
    return any(name.partition(".")[0] in libraries for module in program.modules for name in module.imports)


def scripts_in(data: bytes) -> tuple[str, ...]:
    """Return the scripts in a file of commands, spelled as in the file. Modules after `-m` become paths."""
    paths = PATH.findall(lines_with(data, (b".py",)))
    found = (SCRIPT.match(each) for each in paths if b".py" in each)
    named = [each[0].decode() for each in found if each]
    named += [each.decode().replace(".", "/") + ".py" for each in STARTED_MODULE.findall(data)]
    return tuple(dict.fromkeys(named))


def starts(program: Program, script: str, path: str) -> bool:
    """Return True if `script`, as spelled in the file at `path`, may be the program's entry."""
    if program.entry in (normpath(join(dirname(path), script)), normpath(script)):
        return True
    return f"/{program.entry}".endswith(f"/{script.lstrip('./')}")


class _Resolver:
    """Resolves dotted names of imports to files of the project."""

    def __init__(self, modules: Mapping[str, Module]) -> None:
        self.modules = modules
        self.imports: dict[str, tuple[str, ...]] = {}
        self.files: dict[tuple[str, str], tuple[str, ...]] = {}
        self.by_name: dict[str, list[str]] = {}
        for path in modules:
            name = basename(dirname(path)) if basename(path) == "__init__.py" else splitext(basename(path))[0]
            self.by_name.setdefault(name, []).append(path)

    def imported_scripts(self) -> frozenset[str]:
        """Return the modules that can be started, do not train, and are imported by another module."""
        scripts = {each.path for each in self.modules.values() if each.starts and not each.trains}
        names = {splitext(basename(path))[0] for path in scripts}
        near = (each for each in self.modules.values() if any(_last(name) in names for name in each.imports))
        return frozenset(path for each in near for path in self.imported_by(each) if path != each.path) & scripts

    def closure(self, entry: Module) -> tuple[Module, ...]:
        found = {entry.path: entry}
        new = [entry]
        while new:
            module = new.pop()
            for path in self.imported_by(module):
                if path not in found:
                    found[path] = self.modules[path]
                    new.append(self.modules[path])
        return tuple(found.values())

    def imported_by(self, module: Module) -> tuple[str, ...]:
        """Return the files that the module imports.

        The result is cached, because many programs share most of their modules.
        """
        known = self.imports.get(module.path)
        if known is None:
            folder = dirname(module.path)
            files = (path for name in module.imports for path in self.files_of(name, folder))
            known = self.imports[module.path] = tuple(dict.fromkeys(files))
        return known

    def files_of(self, name: str, folder: str) -> tuple[str, ...]:
        """Return the files that an import of `name` in `folder` may load.

        These are the nearest matches and their parent packages.
        """
        known = self.files.get((name, folder))
        if known is None:
            found = self._relative(name, folder) if name.startswith(".") else self._absolute(name.split("."), folder)
            known = self.files[name, folder] = tuple(found)
        return known

    def _relative(self, name: str, folder: str) -> Iterator[str]:
        parts = [part for part in name.split(".") if part]
        for _ in range(len(name) - len(name.lstrip(".")) - 1):
            folder = dirname(folder)
        stem = join(folder, *parts)
        yield from (path for path in (f"{stem}.py", join(stem, "__init__.py")) if path in self.modules)

    def _absolute(self, names: list[str], folder: str) -> Iterator[str]:
        parts = [part for part in names if part]
        tail = "/".join(("", *parts))
        named = [path for path in self.by_name.get(parts[-1], ()) if f"/{_module_path(path)}".endswith(tail)]
        if named:
            shared = {path: _shared_folders(dirname(path), folder) for path in named}
            most = max(shared.values())
            for path in (path for path in named if shared[path] == most):
                yield path
                yield from self._packages_above(path, len(parts))

    def _packages_above(self, path: str, depth: int) -> Iterator[str]:
        folder = dirname(path)
        for _ in range(depth):
            if (package := join(folder, "__init__.py")) in self.modules:
                yield package
            folder = dirname(folder)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _module_path(path: str) -> str:
    return dirname(path) if basename(path) == "__init__.py" else splitext(path)[0]


def _shared_folders(one: str, other: str) -> int:
    count = 0
    for left, right in zip(one.split("/"), other.split("/"), strict=False):
        if left != right:
            break
        count += 1
    return count
