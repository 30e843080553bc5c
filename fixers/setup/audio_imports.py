"""The audio libraries that a project imports."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from posixpath import dirname

from fixers.frame.site import Tree
from fixers.setup.audio_columns import AudioColumns, columns_in, is_among
from fixers.setup.audio_loads import LoadUse, find_loads
from fixers.setup.imported_modules import PythonFiles, imports_of_script, python_files_reached
from fixers.sources.module_files import files_of
from fixers.sources.names import index_names
from fixers.sources.syntax import parse_python
from remote.protocol.dataclass import dataclass, field

PACKAGES = ("soundfile", "librosa", "torchaudio", "torchcodec")
Import = ast.Import | ast.ImportFrom
NEEDLES = (*(package.encode() for package in PACKAGES), b"datasets")


@dataclass(frozen=True)
class AudioUse:
    """The imported audio packages, whether datasets decodes audio, and whether `torchaudio.load` reads recordings.

    `places` maps each package to its first import, as in `train.py:3`, and torchcodec also to a call that needs it.
    `always`: the modules that are imported whenever the command runs. `columns`: the audio columns of a single file.
    `load`: the uses of `torchaudio.load` in a single file. `reached`: the use of the files that the command certainly
    reaches, if other files count as well.
    """

    packages: frozenset[str] = frozenset()
    datasets_audio: bool = False
    torchaudio_load: bool = False
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    always: frozenset[str] = field(default=frozenset(), compare=False)
    columns: AudioColumns = field(default=AudioColumns(), compare=False)
    load: LoadUse = field(default=LoadUse(), compare=False)
    reached: AudioUse | None = field(default=None, compare=False)


def uses_of(tree: Tree, *, built_in: bool = False, command: Sequence[str] = ()) -> AudioUse:
    """Return the audio packages that the files which the command reaches use, outside the project's tests.

    If the command may load other files, or if there is no command, all files count. `built_in`: the run uses the
    built-in trainer, which needs soundfile.
    """
    soundfile = frozenset({"soundfile"})
    trainer = [AudioUse(soundfile, always=soundfile)] if built_in else []
    reached, others = _uses_of_files(tree, python_files_reached(tree, command))
    always = imports_of_script(tree, command)[1]
    replaces, may_replace = (any(use.load.is_replaced for use in each) for each in (reached, [*reached, *others]))
    if not command or not others:
        return _joined([*trainer, *reached, *others], always, replaces_load=may_replace)
    whole = _joined([*trainer, *reached, *others], always, replaces_load=replaces)
    return replace(whole, reached=_joined([*trainer, *reached], always, replaces_load=may_replace))


def _joined(uses: Sequence[AudioUse], always: Collection[str], *, replaces_load: bool) -> AudioUse:
    """Return what the files use together. `replaces_load`: a file replaces `torchaudio.load`."""
    uses = [_without_kept(use, [other.columns.kept for other in uses if other is not use]) for use in uses]
    uses = [_without_load(use) for use in uses] if replaces_load else uses
    return AudioUse(
        frozenset().union(*(use.packages for use in uses)),
        any(use.datasets_audio for use in uses),
        any(use.torchaudio_load for use in uses),
        {package: place for use in reversed(uses) for package, place in use.places.items()},
        frozenset().union(always, *(use.always for use in uses)),
    )


def _uses_of_files(tree: Tree, files: PythonFiles) -> tuple[list[AudioUse], list[AudioUse]]:
    """Return the uses of the files that may use audio packages: of those that are reached, and of the other ones."""
    paths = frozenset(tree.paths())
    reached: list[AudioUse] = []
    others: list[AudioUse] = []
    for path in sorted(files.paths) if files.is_complete else tree.paths():
        if path.endswith(".py") and not path.startswith("tests/") and "/tests/" not in path:
            data = tree.read(path)
            if any(needle in data for needle in NEEDLES):
                (reached if path in files.paths else others).append(uses_in(data, path, paths))
    return reached, others


def _without_kept(use: AudioUse, kept: Sequence[Collection[str]]) -> AudioUse:
    """Return the use without the decoding of columns that other files keep as bytes."""
    decoded = use.columns.decoded
    if not decoded or any(not any(is_among(column, columns) for columns in kept) for column in decoded):
        return use
    needed = use.torchaudio_load or "torchcodec" in use.packages
    return replace(use, datasets_audio=False, places=use.places if needed else _without_torchcodec(use))


def _without_load(use: AudioUse) -> AudioUse:
    """Return the use without the calls of `torchaudio.load`, because the project replaces this function."""
    if not use.torchaudio_load or use.load.is_kept:
        return use
    needed = use.datasets_audio or "torchcodec" in use.packages
    return replace(use, torchaudio_load=False, places=use.places if needed else _without_torchcodec(use))


def _without_torchcodec(use: AudioUse) -> Mapping[str, str]:
    return {package: place for package, place in use.places.items() if package != "torchcodec"}


def uses_in(data: bytes, path: str = "", paths: Collection[str] = ()) -> AudioUse:
    """Return the audio packages that the Python file at `path` uses, or none if it does not parse.

    Imports in `try` are ignored, and so are modules of the project, whose files are `paths`.
    """
    try:
        module = parse_python(data)
    except (SyntaxError, ValueError):
        return AudioUse()
    found = _import_lines(module)
    lines = {root: line for root, line in found.items() if not any(files_of(root, dirname(path), paths))}
    names = index_names(module) if "datasets" in lines or b"torchaudio" in data else None
    columns = columns_in(names) if names is not None and "datasets" in lines else AudioColumns()
    decodes = min(columns.decoded.values(), default=0)
    load = find_loads(names) if names is not None else LoadUse()
    loads = load.line if "torchaudio" in lines else 0
    packages = frozenset(lines.keys() & set(PACKAGES))
    needs = {"torchcodec": lines.get("torchcodec") or decodes or loads}
    places = {package: f"{path}:{line}" for package, line in {**lines, **needs}.items() if package in PACKAGES and line}
    return AudioUse(packages, bool(decodes), bool(loads), places, columns=columns, load=load)


def _import_lines(module: ast.Module) -> dict[str, int]:
    """Return the line of the first import of each package, outside `try`."""
    guarded = {id(node) for block in ast.walk(module) if isinstance(block, ast.Try) for node in _imports(block)}
    lines: dict[str, int] = {}
    for node in sorted(_imports(module), key=lambda each: each.lineno):
        for root in _roots(node) if id(node) not in guarded else ():
            lines.setdefault(root, node.lineno)
    return lines


def _imports(tree: ast.AST) -> Iterator[Import]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _roots(node: Import) -> set[str]:
    if isinstance(node, ast.ImportFrom):
        return {(node.module or "").partition(".")[0]} if not node.level else set()
    return {alias.name.partition(".")[0] for alias in node.names}
