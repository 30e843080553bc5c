"""The lines at which the files of a command import installed modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from fixers.frame.site import Tree
from fixers.setup.imported_modules import files_of_scripts
from fixers.sources.module_files import imported_names
from fixers.sources.syntax import parse_python


def importing_lines(tree: Tree, command: Sequence[str], search_path: Sequence[str] = ()) -> Mapping[str, str]:
    """Return the first place, as FILE:LINE, at which the files of the command import each module at their start."""
    places: dict[str, str] = {}
    for _, files in files_of_scripts(tree, command, search_path):
        for file in files:
            lines = _lines_of_imports(file.data) if set(file.installed) - places.keys() else {}
            for module in file.installed:
                places.setdefault(module, f"{file.path}:{lines.get(module, 1)}")
    return places


def _lines_of_imports(data: bytes) -> Mapping[str, int]:
    """Return the first line of each top-level module that statements outside functions and blocks import."""
    lines: dict[str, int] = {}
    with suppress(SyntaxError):
        for node in parse_python(data).body:
            for module in imported_names(node):
                lines.setdefault(module.partition(".")[0], node.lineno)
                if module.startswith("torch.utils.tensorboard"):
                    lines.setdefault("tensorboard", node.lineno)
    return lines
