"""Mutation testing of fixers/: small faults are put into a sample of its lines, and the tests must fail.

    python -m tests.mutation              # 300 random faults in fixers/
    MUTANTS=1000 SEED=3 JOBS=8 python -m tests.mutation
    MODULES=setup/environment.py,sources/names.py python -m tests.mutation
    MODULES=setup python -m tests.mutation                     # setup fixers only

Faults are those of cosmic-ray. One is drawn per place and kind, so that an operator with eleven replacements counts
once; annotations, protocols and `frozen=True`, on which no behaviour rests, are left out. A mutant is the module with
one fault, loaded in a fork that has all but fixers imported already; it is killed where a test fails, or uses 40 s of
CPU. Setup fixers are measured by the tables in tests/fixers/setup alone: tests with real hosts would notice more.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import io
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import cosmic_ray.plugins
import pytest
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code

from tests import conftest  # noqa: F401 - imported before forking, once for all mutants

ROOT = Path(__file__).resolve().parent.parent
FIXERS = ROOT / "fixers"
TESTS = ROOT / "tests" / "fixers"
TABLES = TESTS / "setup"
MUTANTS = int(os.environ.get("MUTANTS", "300"))
SEED = int(os.environ.get("SEED", "1"))
JOBS = int(os.environ.get("JOBS", str(os.cpu_count() or 1)))
GOAL = 0.80
LIMIT_CPU_S = 40
CASES = "test_cases.py"
LAWS = ("test_laws.py", "test_cached_plans.py", "frame/test_disk_tree.py", "test_pages.py", CASES)
PROPERTIES = ("settings/test_config_properties.py", "test_properties.py")
FRAME = ("fixers.frame.", "fixers.plans.", "fixers.pages")
"""The modules that every fixer uses."""
QUIET = (
    "-x",
    "-k",
    "not docs_are_current",
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-o",
    "addopts=",
    "--hypothesis-seed=1",
)


@dataclass(frozen=True)
class Place:
    """A location of one kind of fault. `variants` are its operators, each with its occurrence."""

    module: str
    kind: str
    line: int
    column: int
    variants: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Verdict:
    """The result of one mutant."""

    place: Place
    operator: str
    killed: bool


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from other source than its file has."""

    def __init__(self, name: str, file: Path, source: str) -> None:
        self.name, self.file, self.source = name, file, source

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.file, loader=self)  # type: ignore[arg-type]

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.source, str(self.file), "exec"), module.__dict__)


def find_places(module: Path) -> Iterator[Place]:
    """Yield every place and kind of fault that can change a module's behaviour."""
    source = module.read_text("utf-8")
    left_out = list(_not_evaluated(ast.parse(source)))
    tree = get_ast(source)
    found: dict[tuple[str, tuple[int, int]], list[tuple[str, int]]] = {}
    for name in cosmic_ray.plugins.operator_names():
        make = cosmic_ray.plugins.get_operator(name)
        if make.arguments():
            continue
        operator = make()
        places = (start for node in ast_nodes(tree) for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(places):
            if not any(first <= start < last for first, last in left_out):
                kind = name.rpartition("/")[2].partition("_")[0]
                found.setdefault((kind, start), []).append((name, occurrence))
    dotted = ".".join(module.relative_to(ROOT).with_suffix("").parts)
    for (kind, (line, column)), variants in found.items():
        yield Place(dotted, kind, line, column, tuple(variants))


def _not_evaluated(tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(tree):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(each, ast.expr) and each.end_lineno is not None and each.end_col_offset is not None:
                yield (each.lineno, each.col_offset), (each.end_lineno, each.end_col_offset)
        for decorator in getattr(node, "decorator_list", ()):
            if ast.unparse(decorator) == "dataclass(frozen=True)":
                yield (decorator.lineno, 0), (decorator.lineno + 1, 0)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "Protocol" for base in node.bases):
            yield (node.lineno, 0), ((node.end_lineno or node.lineno) + 1, 0)


def tests_for(module: str) -> tuple[str, ...]:
    """Return the tests of a module.

    For setup fixers, these are their tables. For others, they are the module's own tests, the cases and forms of source
    fixers, the laws of the frame, and the properties of parsers.
    """
    name = module.rpartition(".")[2]
    if tables := sorted(str(file) for file in TABLES.glob(f"test_{name}*.py")):
        return tuple(tables)
    own = sorted(str(file) for file in TESTS.rglob(f"test_{name}*.py"))
    if module.startswith(FRAME):
        return (*own, *(str(TESTS / test) for test in LAWS))
    parsers = [str(TESTS / "sources"), *(str(TESTS / test) for test in PROPERTIES)] if ".sources." in module else []
    forms = sorted(str(file) for file in TESTS.rglob("test_*_forms.py"))
    return (*own, str(TESTS / CASES), *forms, *parsers)


def run_mutant(place: Place, operator: str, occurrence: int) -> int:
    """Insert the fault, run the tests in this process, and return their exit status."""
    file = ROOT / (place.module.replace(".", "/") + ".py")
    source = mutate_code(file.read_text("utf-8"), cosmic_ray.plugins.get_operator(operator)(), occurrence)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_CPU_S, LIMIT_CPU_S))
    sys.meta_path.insert(0, Mutated(place.module, file, source))
    return run_tests(tests_for(place.module))


def run_tests(tests: Sequence[str]) -> int:
    """Return the exit status of pytest. Its output is discarded, or written to the file in the variable SAID."""
    with Path(os.environ.get("SAID", os.devnull)).open("w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        return int(pytest.main([*QUIET, "--rootdir", str(ROOT), *tests]))


def in_a_fork(act: Callable[[], int]) -> int:
    """Return the id of a new process that calls `act` and exits with its result."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            status = act()
        finally:
            os._exit(status)
    return pid


def pass_without_a_fault(tests: Sequence[str]) -> bool:
    """Return True if the tests pass without a fault. Otherwise every mutant would count as killed."""
    _, status = os.waitpid(in_a_fork(lambda: run_tests(tests)), 0)
    return status == 0


def run_all(chosen: Sequence[tuple[Place, str, int]]) -> Iterator[Verdict]:
    """Run the chosen mutants in forks, several at a time."""
    waiting, running = list(chosen), dict[int, tuple[Place, str, int]]()
    while waiting or running:
        while waiting and len(running) < JOBS:
            mutant = waiting.pop()
            running[in_a_fork(partial(run_mutant, *mutant))] = mutant
        pid, status = os.wait()
        place, operator, _ = running.pop(pid)
        code = os.waitstatus_to_exitcode(status)
        if code == -signal.SIGINT:
            raise KeyboardInterrupt
        yield Verdict(place, operator, code != 0)


def choose(places: Sequence[Place]) -> list[tuple[Place, str, int]]:
    """Return a random sample of locations by seed, and one of the faults of each."""
    rng = random.Random(SEED)
    sample = rng.sample(list(places), min(MUTANTS, len(places)))
    return [(place, *rng.choice(place.variants)) for place in sample]


def chosen_modules() -> list[Path]:
    """Return every module of fixers/ with behaviour, or the modules in the variable MODULES."""
    every = sorted(file for file in FIXERS.rglob("*.py") if file.name not in ("__init__.py", "registry.py"))
    named = os.environ.get("MODULES", "")
    if named == "setup":
        return [file for file in every if (TABLES / f"test_{file.name}").exists()]
    return [FIXERS / name for name in named.split(",")] if named else every


def import_all_but_fixers() -> None:
    """Import everything that the tests import before forking, except modules into which a fork may insert a fault."""
    with redirect_stdout(io.StringIO()):
        pytest.main([*QUIET, "--collect-only", "--rootdir", str(ROOT), str(TESTS)])
    for name in list(sys.modules):
        if name.startswith(("fixers", "tests.fixers", "test_")):
            del sys.modules[name]


def main() -> int:
    places = [place for module in chosen_modules() for place in find_places(module)]
    start = time.monotonic()
    import_all_but_fixers()
    if not pass_without_a_fault(sorted({test for place in places for test in tests_for(place.module)})):
        print("the tests fail without any fault; nothing was measured")
        return 1
    print(f"the tests pass without a fault, in {time.monotonic() - start:.0f} s", flush=True)
    verdicts = []
    for verdict in run_all(choose(places)):
        verdicts.append(verdict)
        if len(verdicts) % 20 == 0:
            print(f"{len(verdicts)} done", flush=True)
        if not verdict.killed:
            place = verdict.place
            print(f"survived: {place.module}:{place.line}:{place.column} {verdict.operator}", flush=True)
    killed = sum(verdict.killed for verdict in verdicts)
    seconds = time.monotonic() - start
    print(f"{len(places)} places, {len(verdicts)} mutants (seed {SEED}), {killed} killed, {seconds:.0f} s")
    print("survivors by module:", dict(Counter(v.place.module for v in verdicts if not v.killed).most_common()))
    share = killed / max(len(verdicts), 1)
    print(f"{share:.1%} killed; the goal is {GOAL:.0%}")
    return 0 if share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
