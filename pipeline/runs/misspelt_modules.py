"""Find modules of the project whose names are similar to those of missing modules. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from posixpath import basename, dirname, splitext

from fixers.setup.imported_modules import WELL_KNOWN
from fixers.sources.module_files import INIT

SIMILAR = 0.8


def misspelt_modules(missing: Iterable[str], paths: Iterable[str], roots: Iterable[str]) -> Mapping[str, str]:
    """Return for missing modules the file of the project whose module has the most similar name, if there is one.

    `roots` are the folders in which Python searches modules. Modules of well-known packages are not compared.
    """
    known = _modules_of(paths, roots)
    near = {name: _nearest(name, known) for name in missing if name.partition(".")[0] not in WELL_KNOWN}
    return {name: known[module] for name, module in near.items() if module}


def describe_misspelt(found: Mapping[str, str]) -> str:
    """Return '; the project has helper.py', or "" for no module."""
    return f"; the project has {', '.join(dict.fromkeys(found.values()))}" if found else ""


def with_correction(hint: str, found: Mapping[str, str]) -> str:
    """Return the hint to correct the import, before the hint for a module whose name is right."""
    return f"correct the import; if its name is right: {hint}" if found and hint else hint


def _nearest(name: str, known: Mapping[str, str]) -> str:
    """Return the known module with the most similar name, in the same package, or ""."""
    package, _, last = name.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == package and each != name}
    near = difflib.get_close_matches(last, beside, n=1, cutoff=SIMILAR)
    return beside[near[0]] if near else ""


def _modules_of(paths: Iterable[str], roots: Iterable[str]) -> Mapping[str, str]:
    """Return the file of each module, by the name under which the module can be imported."""
    modules: dict[str, str] = {}
    every = [path for path in paths if path.endswith(".py")]
    for root in dict.fromkeys(roots):
        prefix = f"{root}/" if root else ""
        for path in every:
            if path.startswith(prefix):
                inside = path[len(prefix) :]
                stem = dirname(inside) if basename(inside) == INIT else splitext(inside)[0]
                modules.setdefault(stem.replace("/", "."), path)
    return {name: path for name, path in modules.items() if name}
