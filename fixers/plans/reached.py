"""Find the code that a training program reaches: from its main code, by the names that reached code uses.

A definition is reached if code of the program that is reached uses its name. A method is reached if its class is also
reached, and all methods are reached if a library may call them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from posixpath import commonprefix, dirname, splitext

from fixers.frame.change import FileChange
from fixers.frame.modules import TRAINS
from fixers.plans.code_units import CONFIG, PART, Unit, units_of
from fixers.plans.programs import Program
from fixers.sources.python import TREES
from fixers.sources.syntax import parse_python
from fixers.sources.unparsable import Unparsable
from remote.protocol.dataclass import dataclass, field

PICKS = re.compile(rb"\bgetattr\(\s*([A-Za-z_][\w.]{0,200})\s*,\s*(?![\s\"'])")
"""Matches `getattr` with a name that is computed."""
MOST_PICKS = 50
"""The number of objects of `getattr` above which one is taken for a module: each is searched in the whole text."""
PLAIN_BASES = frozenset({"object", "ABC", "Protocol", "Generic", "Enum", "NamedTuple", "TypedDict", "Exception"})
Key = tuple[str, str, str]


@dataclass
class Reach:
    """The units that each program reaches. Each module is parsed once.

    `named`: returns the words of configs and commands, which may be names that a program computes at run time.
    """

    read: Callable[[str], bytes]
    named: Callable[[], frozenset[str]]
    parsed: dict[tuple[str, bool], tuple[Unit, ...] | None] = field(default_factory=dict)
    reached: dict[str, frozenset[Key] | None] = field(default_factory=dict)
    picking: dict[str, bool] = field(default_factory=dict)

    def leaves_out(self, change: FileChange, programs: Sequence[Program]) -> bool:
        """Return True if none of the programs reaches the changed code."""
        return change.path.endswith(".py") and all(self._leaves_out(change, each) for each in programs)

    def _leaves_out(self, change: FileChange, program: Program) -> bool:
        if change.path not in program.paths:
            return False  # the program imports the module by a computed name
        changed, reached = changed_units(change, is_entry=change.path == program.entry), self.of(program)
        return changed is not None and reached is not None and changed.isdisjoint(reached)

    def trains(self, program: Program) -> bool:
        """Return True if the program reaches code that trains, or if its code is unknown."""
        training = {each.path for each in program.modules if each.trains}
        if program.entry in training or program.started or not training or self.of(program) is None:
            return True
        units = (each for path in training for each in self.units(path, is_entry=False))
        found = self.of(program) or frozenset()
        return any(each.key in found and not each.is_class and TRAINS.is_in(each.text) for each in units)

    def runs_line(self, program: Program, path: str, line: int) -> bool:
        """Return True if the program reaches the code of this line, which is counted from 1."""
        found = self.of(program)
        units = self.parse(path, is_entry=path == program.entry)
        if found is None or units is None:
            return False
        return any(each.key in found and each.contains(line) for each in units)

    def of(self, program: Program) -> frozenset[Key] | None:
        """Return the units that the program reaches, or None if they are unknown."""
        if program.entry not in self.reached:
            self.reached[program.entry] = self._find(program)
        return self.reached[program.entry]

    def units(self, path: str, *, is_entry: bool) -> tuple[Unit, ...]:
        """Return the units of the module without their trees, or () if it cannot be parsed."""
        return self._units(path, is_entry=is_entry) or ()

    def parse(self, path: str, *, is_entry: bool) -> tuple[Unit, ...] | None:
        """Return the units of the module with their trees, or None if it cannot be parsed."""
        with suppress(OSError, Unparsable):
            source = TREES.read(path, self.read(path))
            return units_of(path, source.tree, source.text, is_entry=is_entry)
        return None

    def _find(self, program: Program) -> frozenset[Key] | None:
        units: list[Unit] = []
        for module in program.modules:
            own = self._units(module.path, is_entry=module.path == program.entry)
            if own is None:
                return None
            units += own
        search = _Search(units, {each.path: each.imports for each in program.modules})
        by_name = any(each.dynamic or self._picks_by_name(each.path) for each in program.modules)
        return search.run(self.named() if by_name else ())

    def _picks_by_name(self, path: str) -> bool:
        """Return True for a module such as `import data; getattr(data, config["module"])`."""
        if path not in self.picking:
            self.picking[path] = False
            with suppress(OSError):
                self.picking[path] = _picks_by_name(self.read(path))
        return self.picking[path]

    def _units(self, path: str, *, is_entry: bool) -> tuple[Unit, ...] | None:
        key = path, is_entry
        if key not in self.parsed:
            units = self.parse(path, is_entry=is_entry)
            self.parsed[key] = None if units is None else tuple(each.without_tree() for each in units)
        return self.parsed[key]


def changed_units(change: FileChange, *, is_entry: bool) -> frozenset[Key] | None:
    """Return the units of the module whose code changes, or None if the change adds or removes a unit."""
    with suppress(SyntaxError, ValueError):
        old, new = (_texts(change.path, each, is_entry) for each in (change.before, change.after))
        if [key for key, _ in old] == [key for key, _ in new]:
            return frozenset(one for (one, text), (_, other) in zip(old, new, strict=True) if text != other)
    return None


def _picks_by_name(text: bytes) -> bool:
    names = set(PICKS.findall(text)) if b"getattr(" in text else set()
    return len(names) > MOST_PICKS or any(_imports(text, each) for each in names)


def _imports(text: bytes, module: bytes) -> bool:
    """Return True if the text imports something under this name, which may be dotted."""
    name = re.escape(module)
    pattern = rb"^[ \t]*(?:import[ \t]+(?:[^#\n]*\bas[ \t]+)?%b\b|from[ \t]+[\w.]+[ \t]+import[ \t][^#\n]*\b%b\b)"
    return re.search(pattern % (name, name), text, re.MULTILINE) is not None


@lru_cache(maxsize=8)
def _texts(path: str, data: bytes, is_entry: bool) -> list[tuple[Key, bytes]]:
    return [(each.key, each.text) for each in units_of(path, parse_python(data), data, is_entry=is_entry)]


class _Search:
    """The reached units of a program.

    `created`: reached classes that may have instances. Of other reached classes, only methods are reached whose names
    are used: `Speech.load()` does not run `Speech.__init__`. `followed`: classes whose methods and bases were judged,
    and whether as created ones: methods whose names are used later are found by these names.
    """

    def __init__(self, units: Sequence[Unit], imports: Mapping[str, Sequence[str]]) -> None:
        self.units = units
        self.imports = {path: _by_last(names) for path, names in imports.items()}
        self.by_name = _grouped(units)
        self.free = {name: [each for each in found if not each.owner] for name, found in self.by_name.items()}
        self.lines = "\n".join(self.by_name).encode()
        self.names = frozenset(f"{part}{name}" for name in self.by_name for part in ("", PART))
        self.open_classes = _of_libraries(units)
        self.methods: defaultdict[tuple[str, str], list[Unit]] = defaultdict(list)
        for each in units:
            if each.owner:
                self.methods[each.path, each.owner].append(each)
        self.found: dict[Unit, Key] = {}
        self.created: set[tuple[str, str]] = set()
        self.followed: set[tuple[Unit, bool]] = set()
        self.used: set[str] = set()
        self.seen: set[tuple[str, str]] = set()
        self.new: list[tuple[Unit, bool]] = []

    def run(self, named: Iterable[str]) -> frozenset[Key]:
        """Return the keys of the reached units. `named`: names that the program uses in any case."""
        self.new = [(each, True) for each in self.units if each.at_import and not each.owner]
        self._use(named)
        while self.new:
            unit, is_created = self.new.pop()
            if unit not in self.found:
                self.found[unit] = unit.key
                self._use(unit.uses | self._composed(unit), unit.path)
            if unit.is_class:
                if self.followed.isdisjoint(((unit, is_created), (unit, True))):
                    self.followed.add((unit, is_created))
                    self._reach_methods(unit, is_created=is_created)
            elif unit.owner and "cls" in unit.uses and (unit.path, unit.owner) not in self.created:
                self.new += [(each, True) for each in self.by_name[unit.owner] if each.path == unit.path]
        return frozenset(self.found.values()) | {each.key for each in self.units if each.is_value}

    def _use(self, names: Iterable[str], path: str = "") -> None:
        known = self.names.intersection(names)
        for name in known:
            free, is_created = self.free[name.removeprefix(PART)], not name.startswith(PART)
            by_path = path if len(free) > 1 else ""
            if (by_path, name) not in self.seen:
                self.seen.add((by_path, name))
                self.new += [(each, is_created) for each in (self._imported(free, path) if len(free) > 1 else free)]
        for name in known - self.used:
            self.new += [(each, True) for each in self.by_name[name.removeprefix(PART)] if self._is_method(each)]
        self.used |= known

    def _imported(self, found: Sequence[Unit], path: str) -> Sequence[Unit]:
        """Return those of several units of the same name that the module at `path` defines or imports."""
        own = [each for each in found if each.path == path]
        if own:
            return own
        modules = self.imports.get(path, {}).get(found[0].name)
        named = [each for each in found if not modules.isdisjoint(_names_of_module(each.path))] if modules else []
        nearest = max((_shared(path, each.path) for each in named), default=0)
        return [each for each in named if _shared(path, each.path) == nearest] or found

    def _is_method(self, unit: Unit) -> bool:
        """Return True for a method whose class is reached, if no operation of the language calls it."""
        if not unit.owner or _is_special(unit.name):
            return False
        return any(each in self.found for each in self.by_name[unit.owner] if each.path == unit.path)

    def _composed(self, unit: Unit) -> set[str]:
        return {name.decode() for each in unit.composed for name in each.among(self.lines)}

    def _reach_methods(self, unit: Unit, *, is_created: bool) -> None:
        key = unit.path, unit.name
        is_new = is_created and key not in self.created
        if is_new:
            self.created.add(key)
        may_call = is_new and key in self.open_classes
        for each in self.methods[key]:
            if each in self.found:
                continue
            if (self._is_used(each.name) and not _is_special(each.name)) or (is_new and _is_called(each, may_call)):
                self.new.append((each, True))
        self.new += [(each, is_created) for base in unit.bases for each in self._classes(base, unit.path, is_created)]

    def _is_used(self, name: str) -> bool:
        return name in self.used or f"{PART}{name}" in self.used

    def _classes(self, base: str, path: str, is_created: bool) -> Iterator[Unit]:
        found = self.free.get(base, ())
        for each in self._imported(found, path) if found else ():
            if each not in self.found or (is_created and each.is_class and (each.path, each.name) not in self.created):
                yield each


def _by_last(imports: Iterable[str]) -> Mapping[str, set[str]]:
    """Return the last names of the imports, each with the names of the modules from which it is imported."""
    modules: defaultdict[str, set[str]] = defaultdict(set)
    for each in imports:
        module, dot, name = each.rpartition(".")
        if dot:
            modules[name].add(module.rpartition(".")[2])
    return modules


def _grouped(units: Iterable[Unit]) -> Mapping[str, list[Unit]]:
    by_name: defaultdict[str, list[Unit]] = defaultdict(list)
    for each in units:
        if each.name:
            by_name[each.name].append(each)
    return by_name


@lru_cache(maxsize=4096)
def _names_of_module(path: str) -> tuple[str, ...]:
    """Return the names by which the module may be imported: its own, and that of its folder for `__init__.py`."""
    return tuple(splitext(path)[0].split("/")[-2:])


def _shared(path: str, other: str) -> int:
    """Return the number of folders that the paths share."""
    return len(commonprefix([dirname(path).split("/"), dirname(other).split("/")]))


def _is_called(method: Unit, may_call: bool) -> bool:
    """Return True for a method that Python or a decorator calls, or a library, if the class has a base of one."""
    return method.name != CONFIG and (_is_special(method.name) or may_call or method.at_import)


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


def _of_libraries(units: Iterable[Unit]) -> set[tuple[str, str]]:
    """Return the classes, as path and name, that have a base class which is not one of the program."""
    classes = [each for each in units if each.is_class]
    names = {each.name for each in classes}
    derived: defaultdict[str, list[Unit]] = defaultdict(list)
    for each in classes:
        for base in each.bases:
            derived[base].append(each)
    found: set[tuple[str, str]] = set()
    waiting = [base for base in derived if base not in names]
    while waiting:
        base = waiting.pop()
        for each in derived.pop(base, ()) if base not in PLAIN_BASES else ():
            found.add((each.path, each.name))
            waiting.append(each.name)
    return found
