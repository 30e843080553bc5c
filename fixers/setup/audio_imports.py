"""The audio libraries that a project imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from fixers.frame.site import Tree
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass

PACKAGES = ("soundfile", "librosa", "torchaudio", "torchcodec")
NEEDLES = (*(package.encode() for package in PACKAGES), b"datasets")


@dataclass(frozen=True)
class AudioUse:
    """The imported audio packages, and whether datasets decodes audio."""

    packages: frozenset[str] = frozenset()
    datasets_audio: bool = False


def uses_of(tree: Tree, *, built_in: bool = False) -> AudioUse:
    """Return the audio packages that the project uses outside its tests.

    `built_in`: the run uses the built-in trainer, which needs soundfile.
    """
    found: set[str] = {"soundfile"} if built_in else set()
    audio = False
    for path in tree.paths():
        if path.endswith(".py") and not path.startswith("tests/") and "/tests/" not in path:
            data = tree.read(path)
            if any(needle in data for needle in NEEDLES):
                use = uses_in(data)
                found |= use.packages
                audio = audio or use.datasets_audio
    return AudioUse(frozenset(found), audio)


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
    return AudioUse(frozenset(roots & set(PACKAGES)), "datasets" in roots and _decodes(module))


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {alias.name.partition(".")[0] for alias in node.names}


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
