"""The audio libraries that a project imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from fixers.frame.site import Tree
from fixers.setup.imported_modules import files_reached
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass, field

PACKAGES = ("soundfile", "librosa", "torchaudio", "torchcodec")
NEEDLES = (*(package.encode() for package in PACKAGES), b"datasets")


@dataclass(frozen=True)
class AudioUse:
    """The imported audio packages, whether datasets decodes audio, and whether `torchaudio.load` reads recordings.

    `places` maps each package to its first import, as in `train.py:3`, and torchcodec also to a call that needs it.
    """

    packages: frozenset[str] = frozenset()
    datasets_audio: bool = False
    torchaudio_load: bool = False
    places: Mapping[str, str] = field(default_factory=dict, compare=False)


def uses_of(tree: Tree, *, built_in: bool = False, command: Sequence[str] = ()) -> AudioUse:
    """Return the audio packages that the files which the command reaches use, outside the project's tests.

    If it is unknown which files the command reaches, all files count. `built_in`: the run uses the built-in trainer,
    which needs soundfile.
    """
    uses = [AudioUse(frozenset({"soundfile"}))] if built_in else []
    reached = files_reached(tree, command)
    for path in tree.paths() if reached is None else sorted(reached):
        if path.endswith(".py") and not path.startswith("tests/") and "/tests/" not in path:
            data = tree.read(path)
            if any(needle in data for needle in NEEDLES):
                uses.append(uses_in(data, path))
    return AudioUse(
        frozenset().union(*(use.packages for use in uses)),
        any(use.datasets_audio for use in uses),
        any(use.torchaudio_load for use in uses),
        {package: place for use in reversed(uses) for package, place in use.places.items()},
    )


def uses_in(data: bytes, path: str = "") -> AudioUse:
    """Return the audio packages that the Python file at `path` uses, or none if it does not parse.

    Imports in `try` are ignored.
    """
    try:
        module = parse_python(data)
    except (SyntaxError, ValueError):
        return AudioUse()
    lines = _import_lines(module)
    decodes = _decoding_line(module) if "datasets" in lines else 0
    loads = _loading_line(module) if "torchaudio" in lines else 0
    packages = frozenset(lines.keys() & set(PACKAGES))
    needs = {"torchcodec": lines.get("torchcodec") or decodes or loads}
    places = {package: f"{path}:{line}" for package, line in {**lines, **needs}.items() if package in PACKAGES and line}
    return AudioUse(packages, bool(decodes), bool(loads), places)


def _import_lines(module: ast.Module) -> dict[str, int]:
    """Return the line of the first import of each package, outside `try`."""
    guarded = {id(node) for block in ast.walk(module) if isinstance(block, ast.Try) for node in _imports(block)}
    lines: dict[str, int] = {}
    for node in sorted(_imports(module), key=lambda each: each.lineno):
        for root in _roots(node) if id(node) not in guarded else ():
            lines.setdefault(root, node.lineno)
    return lines


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom)))


def _roots(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {alias.name.partition(".")[0] for alias in node.names}


def _loading_line(module: ast.Module) -> int:
    """Return the line of `torchaudio.load`, under any name of the module, or of `from torchaudio import load`, or 0."""
    names: set[str] = set()
    for node in _imports(module):
        if isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "torchaudio"}
        elif node.module == "torchaudio" and "load" in [alias.name for alias in node.names]:
            return node.lineno
    loads = (node for node in ast.walk(module) if isinstance(node, ast.Attribute) and node.attr == "load")
    return next((node.lineno for node in loads if isinstance(node.value, ast.Name) and node.value.id in names), 0)


def _decoding_line(module: ast.Module) -> int:
    """Return the line of a call of `Audio(...)` without `decode=False`, or 0."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            kept = any(word.arg == "decode" and _is_false(word.value) for word in node.keywords)
            if called == "Audio" and not kept:
                return node.lineno
    return 0


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
