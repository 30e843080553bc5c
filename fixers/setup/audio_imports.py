"""The audio libraries that a project imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from fixers.frame.site import Tree
from fixers.setup.imported_modules import files_reached
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

PACKAGES = ("soundfile", "librosa", "torchaudio", "torchcodec")
NEEDLES = (*(package.encode() for package in PACKAGES), b"datasets")


@dataclass(frozen=True)
class AudioUse:
    """The imported audio packages, whether datasets decodes audio, and whether `torchaudio.load` reads recordings."""

    packages: frozenset[str] = frozenset()
    datasets_audio: bool = False
    torchaudio_load: bool = False


def uses_of(tree: Tree, *, built_in: bool = False, command: Sequence[str] = ()) -> AudioUse:
    """Return the audio packages that the files which the command reaches use, outside the project's tests.

    If it is unknown which files the command reaches, all files count. `built_in`: the run uses the built-in trainer,
    which needs soundfile.
    """
    uses = [AudioUse(frozenset({"soundfile"}))] if built_in else []
    reached = files_reached(tree, command)
    for path in tree.paths() if reached is None else reached:
        if path.endswith(".py") and not path.startswith("tests/") and "/tests/" not in path:
            data = tree.read(path)
            if any(needle in data for needle in NEEDLES):
                uses.append(uses_in(data))
    return AudioUse(
        frozenset().union(*(use.packages for use in uses)),
        any(use.datasets_audio for use in uses),
        any(use.torchaudio_load for use in uses),
    )


def uses_in(data: bytes) -> AudioUse:
    """Return the audio packages that one Python file uses, or none if it does not parse.

    Imports in `try` are ignored.
    """
    try:
        module = parse_python(data)
    except (SyntaxError, ValueError):
        return AudioUse()
    guarded = {id(node) for block in ast.walk(module) if isinstance(block, ast.Try) for node in _imports(block)}
    roots = {root for node in _imports(module) if id(node) not in guarded for root in _roots(node)}
    loads = "torchaudio" in roots and _loads_with_torchaudio(module)
    return AudioUse(frozenset(roots & set(PACKAGES)), "datasets" in roots and _decodes(module), loads)


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {alias.name.partition(".")[0] for alias in node.names}


def _loads_with_torchaudio(module: ast.Module) -> bool:
    """Return True for `torchaudio.load`, under any name of the module, and for `from torchaudio import load`."""
    imports = list(_imports(module))
    names = {
        alias.asname or alias.name
        for node in imports
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "torchaudio"
    }
    direct = any(
        isinstance(node, ast.ImportFrom) and node.module == "torchaudio" and any(a.name == "load" for a in node.names)
        for node in imports
    )
    return direct or any(
        isinstance(node, ast.Attribute)
        and node.attr == "load"
        and isinstance(node.value, ast.Name)
        and node.value.id in names
        for node in ast.walk(module)
    )


def _decodes(module: ast.Module) -> bool:
    """Return True for a call of `Audio(...)` without `decode=False`."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kept = any(word.arg == "decode" and _is_false(word.value) for word in node.keywords)
            if called == "Audio" and not kept:
                return True
    return False


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
