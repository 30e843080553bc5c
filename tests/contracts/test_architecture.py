"""Layout rules: imports point down, heavy packages have one importer, files are short."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from radon.complexity import cc_visit
from radon.visitors import Function

from pipeline.cli.commands import VERBS
from remote.link.bundle import payload_bundle
from tests.contracts.project_modules import ROOT, Import, Module, graph, imports_of, module_named, modules

STDLIB = set(sys.stdlib_module_names)
LONGEST_FILE = 300
LONGEST_FUNCTION = 60
HEAVY = ("torch", "transformers", "peft", "accelerate", "datasets", "tensorboard", "soundfile", "numpy")
ON_THE_HOST = ("remote.payload", "remote.protocol", "remote.policy")
MOST_COMPLEX = 15
RUNS_BESIDE_TORCH = ("remote.payload.training", "remote.payload.proof.hooks")
"""Code of the payload that is only ever run by the host's own interpreter."""


@cache
def every_import() -> tuple[tuple[Module, Import], ...]:
    return tuple((module, found) for module in modules() for found in imports_of(module))


def may_import(importer: str, target: str) -> bool:
    """Return True if the import points down. The payload may import only itself, the protocol and the policies."""
    if importer.startswith("pipeline"):
        return not target.startswith("remote.payload")
    if importer.startswith("fixers"):
        allowed = ("fixers", "remote.host", "remote.protocol", "remote.errors", "remote.policy", "remote.project")
        return target.startswith(allowed)
    if importer.startswith("remote.payload"):
        return target.startswith(("remote.payload", "remote.protocol", "remote.policy"))
    return target.startswith("remote") and not target.startswith("remote.payload")


def test_imports_point_down() -> None:
    wrong = [
        f"{module.where}:{found.line} imports {target}"
        for module, found in every_import()
        if (target := module_named(found.name)) and not may_import(module.name, target)
    ]
    assert wrong == []


def folders_of(package: str) -> list[str]:
    """Return the folders and modules of a package from the top down, as docs/architecture.md lists them."""
    drawn = (ROOT / "docs" / "architecture.md").read_text()
    margin = "    " + "  " * package.count("/")
    lines = re.search(rf"^{margin}{Path(package).name}/ .*\n((?:{margin}  .*\n)*)", drawn, re.MULTILINE)
    assert lines is not None
    return re.findall(rf"^{margin}  ([a-z_]+)(?:/|\.py) ", lines[1], re.MULTILINE)


@pytest.mark.parametrize("package", ["pipeline", "fixers", "remote", "remote/payload"])
def test_every_folder_and_module_at_the_top_of_a_package_is_on_the_architecture_page(package: str) -> None:
    folders = {path.name for path in (ROOT / package).iterdir() if path.is_dir()} - {"__pycache__"}
    loose = {path.stem for path in (ROOT / package).glob("*.py")} - {"__init__", "__main__"}
    assert sorted(folders_of(package)) == sorted(folders | loose)


@pytest.mark.parametrize(
    ("package", "loose"),
    [
        ("pipeline", {"__main__", "loading"}),
        ("fixers", {"pages", "registry"}),
        ("remote", {"errors", "host"}),
        ("remote/payload", {"__main__", "operations"}),
    ],
)
def test_no_other_module_is_at_the_top_of_a_package(package: str, loose: set[str]) -> None:
    assert {path.stem for path in (ROOT / package).glob("*.py")} == loose | {"__init__"}


@pytest.mark.parametrize("package", ["pipeline", "fixers", "remote", "remote/payload"])
def test_a_folder_imports_only_from_folders_below_it(package: str) -> None:
    """The command line is excepted, because these folders do not import it and `pages/` reads its table of verbs."""
    dotted = package.replace("/", ".")
    floor = {f"{dotted}.{room}": number for number, room in enumerate(folders_of(package)) if room != "cli"}
    upwards = [
        f"{importer} imports {target}"
        for importer, targets in graph().items()
        for target in targets
        if (above := floor.get(folder_in(importer, package))) is not None
        and (below := floor.get(folder_in(target, package))) is not None
        and below < above
    ]
    assert upwards == []


def folder_in(module: str, package: str) -> str:
    return ".".join(module.split(".")[: package.count("/") + 2])


def test_no_function_imports_our_modules() -> None:
    wrong = [f"{m.where}:{i.line}" for m, i in every_import() if i.inside and module_named(i.name)]
    assert wrong == []


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    edges = graph()
    state: dict[str, int] = {}
    circles: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        state[name] = 1
        for target in sorted(edges[name]):
            if state.get(target) == 1:
                circles.append(
                    " > ".join((*trail[trail.index(target) :], target) if target in trail else (name, target))
                )
            elif target not in state:
                visit(target, (*trail, target))
        state[name] = 2

    for name in sorted(edges):
        if name not in state:
            visit(name, (name,))
    assert circles == []


@pytest.mark.parametrize(
    ("library", "rooms"),
    [
        ("paramiko", ("remote.link.ssh",)),
        ("fabric", ("remote.link.ssh.connection",)),
        ("yaml", ("fixers.sources.yaml_nodes",)),
        ("rich", ("pipeline.show",)),
        ("click", ("pipeline.cli",)),
        ("pydantic", ("pipeline.config",)),
    ],
)
def test_a_heavy_library_is_imported_by_one_package(library: str, rooms: tuple[str, ...]) -> None:
    users = {m.name for m, i in every_import() if i.name.split(".")[0] == library}
    assert users, f"nobody uses {library}"
    assert {user for user in users if not user.startswith(rooms)} == set()


def test_only_payload_code_that_runs_beside_torch_imports_it_at_module_level() -> None:
    wrong = [
        f"{m.where}:{i.line} {i.name}"
        for m, i in every_import()
        if i.name.split(".")[0] in HEAVY and not i.inside and not m.name.startswith(RUNS_BESIDE_TORCH)
    ]
    assert wrong == []


def test_the_payload_needs_nothing_but_the_standard_library() -> None:
    wrong = [
        f"{m.where}:{i.line} {i.name}"
        for m, i in every_import()
        if m.name.startswith(ON_THE_HOST)
        and not m.name.startswith(RUNS_BESIDE_TORCH)
        and i.name.split(".")[0] not in STDLIB | {"remote", ""}
        and not i.inside
    ]
    assert wrong == []


def test_the_payload_is_python_3_9() -> None:
    for module in modules():
        if module.name.startswith(ON_THE_HOST):
            ast.parse(module.source, module.where, feature_version=(3, 9))


def test_the_payload_answers_without_site_packages(tmp_path: Path) -> None:
    path = tmp_path / "payload.pyz"
    path.write_bytes(payload_bundle().data)
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(path), "agent", "0" * 16, "", str(tmp_path)],
        input=b"",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.startswith(b"\x02HS" + b"0" * 16 + b"\x03\n")


def test_the_payload_zip_is_reproducible() -> None:
    first = payload_bundle().sha256
    payload_bundle.cache_clear()
    assert payload_bundle().sha256 == first


def test_files_stay_small() -> None:
    lengths = {m.where: len(m.source.splitlines()) for m in modules()}
    assert {where: length for where, length in lengths.items() if length > LONGEST_FILE} == {}


def test_functions_fit_on_a_screen() -> None:
    wrong = [
        f"{module.where}:{node.lineno} {node.name}"
        for module in modules()
        for node in ast.walk(module.tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and (node.end_lineno or 0) - node.lineno > LONGEST_FUNCTION
    ]
    assert wrong == []


def test_no_function_is_more_complex_than_can_be_read_at_once() -> None:
    """Cyclomatic complexity as radon counts it; a comment `# complex: REASON` above a function excuses it."""
    wrong = [
        f"{module.where}:{block.lineno} {block.name} {block.complexity}"
        for module in modules()
        for block in cc_visit(module.source)
        if isinstance(block, Function)
        and block.complexity > MOST_COMPLEX
        and "# complex: " not in module.source.splitlines()[block.lineno - 2]
    ]
    assert wrong == []


def test_every_module_says_one_thing_in_its_first_line() -> None:
    wrong = [m.where for m in modules() if not (ast.get_docstring(m.tree) or "").strip()]
    assert wrong == []


@pytest.mark.parametrize("name", ["utils", "helpers", "common", "manager", "base", "core", "misc"])
def test_no_module_has_a_meaningless_name(name: str) -> None:
    assert [m.where for m in modules() if m.path.stem == name] == []


def test_one_module_reads_sys_argv_on_the_laptop() -> None:
    users = {m.name for m in modules() if "sys.argv" in m.source and not m.name.startswith("remote.payload")}
    assert users <= {"pipeline.cli.main", "pipeline.pages.__main__", "remote.link.bootstrap"}, users


def test_only_the_screen_prints_on_the_laptop() -> None:
    wrong = [
        f"{m.where}:{node.lineno}"
        for m in modules()
        if not m.name.startswith(("remote.payload", "pipeline.show"))
        for node in ast.walk(m.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert wrong == []


def test_no_verb_of_the_laptop_imports_torch() -> None:
    """One process imports all verbs, and prints the first verb that loads a heavy library."""
    program = (
        "import importlib, sys; import pipeline.cli.main, pipeline.cli.connecting, pipeline.cli.names\n"
        "for verb in sys.argv[1:]:\n"
        "    importlib.import_module('pipeline.verbs.' + verb)\n"
        f"    if found := sorted(set(sys.modules) & set({HEAVY!r})): sys.exit(f'{{verb}} imports {{found}}')"
    )
    verbs = [VERBS[verb].module or verb for verb in sorted(VERBS)]
    done = subprocess.run(
        [sys.executable, "-c", program, *verbs], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout


def test_the_verb_run_imports_no_code_that_only_stages_with_work_to_do_need() -> None:
    """A finished run spends most of its time on imports."""
    unneeded = (
        *("fixers.plans", "fixers.code", "fixers.settings", "pipeline.diagnosis.diagnose"),
        *("pipeline.judgements.static", "pipeline.report.page"),
    )
    program = (
        "import sys; import pipeline.cli.connecting, remote.link.ssh.connection, pipeline.verbs.run\n"
        f"sys.exit(' '.join(sorted(name for name in sys.modules if name.startswith({unneeded!r}))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.stderr.split() == []


def test_help_imports_none_of_the_verbs() -> None:
    program = (
        "import sys; from pipeline.cli.main import run; run(['--help']); "
        "HEAVY = ('pipeline.verbs', 'fabric', 'paramiko', 'pydantic', 'rich'); "
        "sys.exit(str([m for m in sys.modules if m.startswith(HEAVY)]) "
        "if any(m.startswith(HEAVY) for m in sys.modules) else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
