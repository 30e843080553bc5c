"""The newest package versions that a project allows: its requirements, packaging files, README and copied libraries."""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from posixpath import basename, dirname
from typing import Any

from fixers.frame.site import Tree
from fixers.frame.text_files import read_text_file
from fixers.sources.copied_libraries import copied_packages, version_in
from fixers.sources.syntax import parse_python
from fixers.sources.toml_text import parse_toml
from remote.protocol.text import version_numbers

DEEPEST = 4
REQUIREMENTS = re.compile(r"[\w.-]*requirements[\w.-]*\.(?:txt|in)$")
IN_FOLDER = re.compile(r"(?:^|/)requirements/[\w.-]+\.(?:txt|in)$")
CONDA = re.compile(r"[\w.-]*(?:environment|conda|requirements)[\w.-]*\.ya?ml$")
REQUIREMENT = re.compile(
    r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\]\s*)?(?:\(\s*)?((?:[=<>~!^,.*\d][=<>~!^,.*\d\s]*)?)"
)
CLAUSE = re.compile(r"(===?|=|<=|<|~=|~|\^)\s*([0-9][0-9.]*)")
IN_LIST = re.compile(r"^[ \t]*-[ \t]*[\"']?([A-Za-z0-9][^\n\"'#]*)", re.MULTILINE)
EXACT = re.compile(r"(?<![\w.-])([A-Za-z][\w.-]*)==(\d+(?:\.\d+)+)")
READMES = re.compile(r"readme[\w.-]*\.(?:md|rst|txt)$", re.IGNORECASE)
BOUND = 999
"""The last number of the newest version below an upper bound: `<5` allows 4.999."""
NEWEST_TRANSFORMERS = (("huggingface-hub", (1,), f"4.{BOUND}"), ("torch", (2,), f"4.47.{BOUND}"))
"""The newest transformers version for an older package: 5.0 needs huggingface-hub 1.0, and 4.48 needs torch 2.0."""
INSTALLED = re.compile(rb"(?<![\w.-])([A-Za-z][\w.-]*)(?:\[[\w, -]*\])?==(\d+(?:\.\d+)+)")
POETRY_EXACT = re.compile(r"\d[\d.]*$")


def project_pins(folders: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the newest allowed version of each package that a file limits.

    Pins in the top folder take precedence; pins in subfolders are used only if all subfolders agree.
    """
    below: dict[str, set[str]] = {}
    for pins in (pins for folder, pins in folders.items() if folder):
        for package, version in pins.items():
            below.setdefault(package, set()).add(version)
    agreed = {package: min(found) for package, found in below.items() if len(found) == 1 and "" not in found}
    return agreed | _limits(folders.get("", {}))


def nearest_pins(folders: Mapping[str, Mapping[str, str]], path: str) -> dict[str, str]:
    """Return the newest allowed version of each package.

    If several folders above the file limit a package, the limit of the nearest folder is used.
    """
    pins: dict[str, str] = {}
    parts = dirname(path).split("/")
    for depth in range(1, len(parts) + 1):
        pins |= _limits(folders.get("/".join(parts[:depth]), {}))
    return pins


def pins_by_folder(tree: Tree) -> dict[str, dict[str, str]]:
    """Return `{folder: {package: newest allowed version}}`. The version is empty if no file limits it.

    The precedence within a folder is requirements files, pyproject.toml, setup files, Conda files, and exact versions
    in a README. Files in `requirements/` count for the parent folder. A copy of a library counts as a pin to its
    version in the folders above it, except the top folder, where it only overrides an upper bound; the library's own
    requirements do not count.
    """
    copies = copied_packages(tree.paths())
    roots = tuple(root for root, _ in copies)
    found: dict[str, list[tuple[int, str]]] = {}
    for path in tree.paths():
        at = _precedence(path)
        if at is not None and path.count("/") <= DEEPEST and not path.startswith(roots):
            folder = dirname(path)
            if IN_FOLDER.search(path):
                folder = dirname(folder)
            found.setdefault(folder, []).append((at, path))
    folders: dict[str, dict[str, str]] = {}
    for folder, files in found.items():
        pins = folders.setdefault(folder, {})
        for _, path in sorted(files, reverse=True):
            listed = _pins_in(tree, path)
            pins |= {package: version or pins.get(package, "") for package, version in listed.items()}
    _add_copies(tree, copies, folders)
    copied = {_library(package) for _, package in copies}
    for folder, pins in folders.items():
        if folder or "transformers" not in copied:
            _limit_transformers(pins)
    return folders


def _add_copies(tree: Tree, copies: Iterable[tuple[str, str]], folders: dict[str, dict[str, str]]) -> None:
    """Pin each copied library to its version in the folders above the copy, unless they pin an exact version.

    In the top folder, an upper bound is removed, so that `project_pins` uses the version of the copy.
    """
    for root, package in copies:
        library, version = _library(package), _version_of(tree, package)
        for folder in _above(root) if version else ():
            pins = folders.setdefault(folder, {})
            if not _is_exact(pins.get(library, "")):
                pins[library] = version
        if library in (top := folders.get("", {})) and not _is_exact(top[library]):
            top[library] = ""


def _library(package: str) -> str:
    """Return the library of a package's `__init__.py`, as requirements name it."""
    return basename(dirname(package)).replace("_", "-")


def _is_exact(version: str) -> bool:
    return version != "" and version_numbers(version)[-1] != BOUND


def _above(root: str) -> Iterator[str]:
    """Yield the folder and the folders that contain it, without the project's top folder."""
    folder = root.rstrip("/")
    while folder:
        yield folder
        folder = dirname(folder)


def _version_of(tree: Tree, path: str) -> str:
    with suppress(OSError):
        return version_in(read_text_file(tree, path).decode("utf-8", "replace"))
    return ""


def _limit_transformers(pins: dict[str, str]) -> None:
    """Limit transformers in folders whose pinned huggingface-hub or torch is too old for newer versions."""
    for package, since, newest in NEWEST_TRANSFORMERS:
        pinned, allowed = pins.get(package, ""), pins.get("transformers", "")
        if pinned and version_numbers(pinned) < since and not _is_exact(allowed):
            pins["transformers"] = min(allowed or newest, newest, key=version_numbers)


def _limits(pins: Mapping[str, str]) -> dict[str, str]:
    return {package: version for package, version in pins.items() if version}


def _parse(requirement: str) -> tuple[str, str] | None:
    """Return the package of a requirement, and the newest version that the requirement allows, or None."""
    plain = requirement.partition("#")[0].partition(";")[0]
    found = REQUIREMENT.match(plain)
    if found is None:
        return None
    clauses = CLAUSE.findall(re.sub(r"[!>]=?\s*[\d.]+", "", found[2]))
    bounds = [_newest(relation, version) for relation, version in clauses]
    return found[1].lower().replace("_", "-"), min(bounds, key=version_numbers, default="")


def _newest(relation: str, version: str) -> str:
    if relation == "<":
        return _just_below(version)
    if relation == "^":
        numbers = version_numbers(version)
        first = next((at for at, number in enumerate(numbers) if number), 0)
        return ".".join(str(number) for number in (*numbers[: first + 1], BOUND))
    return version


def _just_below(version: str) -> str:
    numbers = list(version_numbers(version))
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    numbers[-1] -= 1
    return ".".join(str(max(number, 0)) for number in [*numbers, BOUND])


def _precedence(path: str) -> int | None:
    """Return the position of a file in the order of precedence, or None if it lists no packages."""
    called = basename(path)
    if called == "requirements.txt":
        return 0
    if REQUIREMENTS.match(called) or IN_FOLDER.search(path):
        return 1
    if called in READERS:
        return 2 + [*READERS].index(called)
    if CONDA.match(called):
        return 9
    return 10 if READMES.match(called) else None


def installed_in(notebook: bytes) -> dict[str, str]:
    """Return the exact versions that a notebook installs: `!pip install "peft==0.8.2"`."""
    return _agreed(INSTALLED.findall(notebook)) if b"pip install" in notebook else {}


def _pins_in(tree: Tree, path: str) -> dict[str, str]:
    try:
        text = read_text_file(tree, path).decode("utf-8", "replace")
        if READMES.match(basename(path)):
            return _of_readme(text)
        read = READERS.get(basename(path), _of_conda if CONDA.match(basename(path)) else str.splitlines)
        return dict(filter(None, map(_parse, read(text))))
    except (OSError, ValueError, SyntaxError, RecursionError, configparser.Error):
        return {}


def _of_readme(text: str) -> dict[str, str]:
    """Return the exact versions in a README. Packages with several versions are ignored."""
    return _agreed((package.encode(), version.encode()) for package, version in EXACT.findall(text))


def _agreed(versions: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return the version of each package that is named with one version only."""
    found: dict[str, set[str]] = {}
    for package, version in versions:
        found.setdefault(package.decode().lower().replace("_", "-"), set()).add(version.decode())
    return {package: min(each) for package, each in found.items() if len(each) == 1}


def _of_pyproject(text: str) -> Iterator[str]:
    """Yield the requirements of PEP 621, of dependency groups and of Poetry."""
    document = parse_toml(text)
    project = _table(document, "project")
    lists = [project.get("dependencies"), *_table(project, "optional-dependencies").values()]
    for each in (*lists, *_table(document, "dependency-groups").values()):
        yield from (one for one in (each if isinstance(each, list) else ()) if isinstance(one, str))
    poetry = _table(_table(document, "tool"), "poetry")
    groups = [_table(group, "dependencies") for group in _table(poetry, "group").values() if isinstance(group, dict)]
    for table in (_table(poetry, "dependencies"), _table(poetry, "dev-dependencies"), *groups):
        for package, given in table.items():
            version = given.get("version", "") if isinstance(given, dict) else given
            if isinstance(version, str):
                yield f"{package}{'==' if POETRY_EXACT.match(version) else ''}{version}"


def _table(within: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = within.get(key)
    return found if isinstance(found, dict) else {}


def _of_setup_cfg(text: str) -> Iterator[str]:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    if parser.has_section("options"):
        yield from parser.get("options", "install_requires", fallback="").splitlines()
    if parser.has_section("options.extras_require"):
        for key in parser.options("options.extras_require"):
            yield from parser.get("options.extras_require", key).splitlines()


def _of_setup_py(text: str) -> Iterator[str]:
    """Yield the strings in every list of the file, such as `install_requires`."""
    for node in ast.walk(parse_python(text)):
        items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else []
        yield from (one.value for one in items if isinstance(one, ast.Constant) and isinstance(one.value, str))


def _of_conda(text: str) -> list[str]:
    return [found[1] for found in IN_LIST.finditer(text)]


READERS: dict[str, Callable[[str], Iterator[str] | list[str]]] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup_cfg,
    "setup.py": _of_setup_py,
}
