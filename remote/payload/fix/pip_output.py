"""Turn pip's output into events: the current action, and the progress of a download or an installation."""

from __future__ import annotations

import glob
import os
import re
from typing import Any, Dict, List, Optional

COLLECTING = re.compile(r"Collecting ([^\s(]+)")
DOWNLOADING = re.compile(r"\s*Downloading (\S+)(?: \(([\d.]+ [kMG]?B)\))?")
PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
BUILDING = re.compile(r"\s*Building (?:wheel|editable) for ([^\s(]+)")
INSTALLING = re.compile(r"Installing collected packages: (.+)")
ARCHIVE = re.compile(r"(.+?)-(\d[^-]*?)(?:-.*\.whl|\.tar\.\w+|\.zip)")


class PipOutput:
    """Parses pip's output line by line. A `Progress` line belongs to the previous download.

    pip prints nothing while it installs packages, which can take minutes. `installation` counts the packages that pip
    has finished in the site-packages folders of `venv` since this object was created.
    """

    def __init__(self, venv: str) -> None:
        self._download = ""
        self._records = os.path.join(glob.escape(venv), "lib", "python*", "site-packages", "*.dist-info", "INSTALLER")
        self._packages: List[str] = []
        self._before = set(glob.glob(self._records))

    def event(self, line: str) -> Optional[Dict[str, Any]]:
        """Return the event {doing}, with {done, total} in bytes during a download.

        Return None if the line shows no progress.
        """
        progress = PROGRESS.match(line)
        if progress:
            done, total = int(progress.group(1)), int(progress.group(2))
            return {"doing": self._download, "done": done, "total": total} if self._download and total else None
        downloading = DOWNLOADING.match(line)
        if downloading:
            return self._downloading(downloading.group(1), downloading.group(2) or "")
        collecting = COLLECTING.match(line)
        if collecting:
            return {"doing": f"collecting {collecting.group(1)}"}
        building = BUILDING.match(line)
        if building:
            return {"doing": f"building {building.group(1)}"}
        installing = INSTALLING.match(line)
        if installing:
            self._packages = installing.group(1).split(", ")
        return self.installation() if installing else None

    def installation(self) -> Optional[Dict[str, Any]]:
        """Return the event {doing, done, total} in packages, or None if no installation has begun.

        pip installs the packages one after another in the printed order, and writes the file INSTALLER of a package
        last.
        """
        if not self._packages:
            return None
        total = len(self._packages)
        done = min(len(set(glob.glob(self._records)) - self._before), total)
        doing = f"installing {self._packages[min(done, total - 1)]} ({min(done + 1, total)} of {total})"
        return {"doing": doing, "done": done, "total": total}

    def _downloading(self, file: str, size: str) -> Optional[Dict[str, Any]]:
        name = file.rpartition("/")[2].replace("%2B", "+")
        if name.endswith(".metadata"):
            return None
        match = ARCHIVE.fullmatch(name)
        package = f"{match.group(1)} {match.group(2)}" if match else name
        self._download = f"downloading {package}" + (f" ({size})" if size else "")
        return {"doing": self._download}
