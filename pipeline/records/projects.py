"""Find the folders in which the runs of the current project are recorded.

These are the project itself, and the folders inside it that `project:` of its configs names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.find import SUFFIXES, config_folders, find_project
from pipeline.config.shipped import shipped_configs
from pipeline.loading import LazyModule
from pipeline.records.layout import Records
from remote.errors import BadUsage, HalfstepError
from remote.project.paths import is_folder, resolved
from remote.project.records_folder import RECORDS_FOLDER, require_own_records
from remote.protocol.regular import read_regular

if TYPE_CHECKING:
    from pipeline.config import document
else:
    document = LazyModule("pipeline.config.document")

MOST_CONFIGS = 200
LARGEST_CONFIG = 2**18
ANOTHER_FOLDER = re.compile(rb"""project["']?\s*:(?![ \t\f\v]*+["']?+\.?+/?+["']?+[ \t\f\v]*+(?:[,}#\r\n]|$))""")
"""`project:` with another value than `.`: only configs with such a line are parsed, because most commands need none.

The time of a search grows with the length of the config: no part of the expression gives back what it has matched.
"""


def project_records(cwd: Path) -> tuple[Records, ...]:
    """Return the records of the project that contains `cwd`, then those of each folder that its configs name.

    A folder is included if it is inside the project and contains a `.halfstep/` that belongs to the user: a config of a
    cloned project cannot select the runs of another project. Raises the errors of `find_project`.
    """
    root = find_project(cwd)
    return tuple(map(Records, dict.fromkeys((root, *_named_folders(root, cwd)))))


def _named_folders(root: Path, cwd: Path) -> Iterator[Path]:
    for path in itertools.islice(_configs(cwd), MOST_CONFIGS):
        base = resolved(path.parent.parent)
        folder = resolved(base / _project_in(path))
        if base.is_relative_to(root) and base in folder.parents and _has_own_records(folder):
            yield folder


def _configs(cwd: Path) -> list[Path]:
    """Return the configs in the nearest configs/, from `cwd` upwards."""
    try:
        own = [folder for folder in config_folders(cwd) if folder != shipped_configs()]
    except BadUsage:  # another user could have created configs/
        return []
    return sorted(path for folder in own for path in folder.glob("*.y*ml") if path.suffix in SUFFIXES)


def _project_in(path: Path) -> str:
    """Return the value of `project:` in a config, or "." if there is none or the config cannot be parsed."""
    try:
        named = ANOTHER_FOLDER.search(read_regular(path, LARGEST_CONFIG, follow=True))
        value = document.read_document(path).values.get("project") if named else None
    except (HalfstepError, OSError):
        return "."
    return value if isinstance(value, str) else "."


def _has_own_records(folder: Path) -> bool:
    records = folder / RECORDS_FOLDER
    if not is_folder(records):
        return False
    try:
        require_own_records(records)
    except (BadUsage, OSError):
        return False
    return True
