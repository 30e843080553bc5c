"""Explain an error about a missing file by the files of the project on the laptop."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from pipeline.diagnosis.diagnose import Diagnosis
from pipeline.judgements.left_out import LeftOut
from pipeline.judgements.missing_files import CHECKS, LaptopFiles, explain_missing
from remote.errors import HalfstepError
from remote.project.included_files import Inclusions
from remote.project.paths import exists, is_folder
from remote.project.records_folder import RECORDS_FOLDER
from remote.protocol.findings import Finding

MOST_FOLDERS, MOST_NAMES = 200, 1000
MOST_FILES = 20


def explained_by(root: Path) -> Callable[[Finding, Diagnosis], Finding]:
    """Return a function that explains findings about missing files by the project in `root`, if it is a project."""
    is_project = is_folder(root / RECORDS_FOLDER) or is_folder(root / "configs")
    laptop = cache(lambda: laptop_files(root))

    def explain(finding: Finding, one: Diagnosis) -> Finding:
        if not is_project or finding.check not in CHECKS or one.survived or not one.names:
            return finding
        try:
            return explain_missing(finding, one.names, laptop())
        except (OSError, ValueError, HalfstepError):
            return finding

    return explain


def laptop_files(root: Path) -> LaptopFiles:
    """Return the view of the project in `root` by which missing files are explained. Only ignore files are read."""
    rules = Inclusions(root)

    def files_of(path: str) -> tuple[str, ...]:
        return tuple(islice(_files_below(root, path), MOST_FILES)) or (path,)

    def is_sent(path: str) -> bool:
        return any(rules.would_include((file,), ()) for file in files_of(path))

    def would_send(path: str, lines: tuple[str, ...]) -> bool | None:
        return rules.would_include(files_of(path), lines)

    def pattern_for(path: str) -> str:
        return rules.excluding_pattern(path) or rules.excluding_pattern(files_of(path)[0])

    def may_be_sent(path: str) -> bool:
        return not rules.excluding_pattern(path)

    project = LeftOut(may_be_sent, lambda path: exists(root / path), lambda path: path, would_send)
    return LaptopFiles(str(root), project, is_sent, lambda path: nearest_path(root, path), pattern_for, exists)


def nearest_path(root: Path, path: str) -> str:
    """Return the existing path of the project with the most similar name, or "" if no name is similar.

    Each folder of the path is replaced by the most similar one. If that fails, the name is searched in all folders.
    """
    found = ""
    for name in path.split("/"):
        names = sorted(islice(_names_in(root / found), MOST_NAMES))
        near = [name] if name in names else difflib.get_close_matches(name, names, n=1, cutoff=0.5)
        if not near:
            return _same_name(root, path.rpartition("/")[2])
        found = f"{found}/{near[0]}".lstrip("/")
    return found


def _names_in(folder: Path) -> Iterator[str]:
    if is_folder(folder):
        with os.scandir(folder) as listing:
            yield from (entry.name for entry in listing if not entry.name.startswith("."))


def _same_name(root: Path, name: str) -> str:
    for folder, folders, names in islice(os.walk(root), MOST_FOLDERS):
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        if name in names or name in folders:
            return Path(folder, name).relative_to(root).as_posix()
    return ""


def _files_below(root: Path, path: str) -> Iterator[str]:
    """Yield the path itself if it is a file, else the files of the first folders below it."""
    if not is_folder(root / path):
        yield path
    for folder, _, names in islice(os.walk(root / path), MOST_FOLDERS):
        for name in names[:MOST_NAMES]:
            yield Path(folder, name).relative_to(root).as_posix()
