"""Link large data into a job's copy of the code, at the paths that the script expects."""

from __future__ import annotations

import contextlib
import os
from typing import Mapping


def place_data(data: Mapping[str, str], code: str) -> None:
    """For each `path: target` in `data`, link the path under `code` to the target. Existing files are kept.

    An existing link is replaced. If the path is an existing folder, the files of the target are linked one by one. A
    path under a link that leads out of `code` is skipped.
    """
    for place, target in data.items():
        at = os.path.join(code, place)
        parent = os.path.dirname(at)
        if os.path.realpath(parent) != os.path.join(os.path.realpath(code), os.path.dirname(place)).rstrip("/"):
            continue
        os.makedirs(parent, exist_ok=True)
        if os.path.islink(at):
            os.unlink(at)
        if os.path.isdir(at) and os.path.isdir(target):
            _link_files(target, at)
        elif not os.path.lexists(at):
            os.symlink(target, at)


def _link_files(source: str, folder: str) -> None:
    # The files are linked one by one, because os.walk and rglob do not follow linked folders.
    for name in os.listdir(source):
        of, at = os.path.join(source, name), os.path.join(folder, name)
        if os.path.isdir(of) and not os.path.islink(at):
            with contextlib.suppress(FileExistsError):
                os.mkdir(at)
            if os.path.isdir(at):
                _link_files(of, at)
        elif not os.path.lexists(at):
            os.symlink(of, at)
