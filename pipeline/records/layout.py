"""What a project remembers in its `.halfstep/`, and where each thing lies there.

.halfstep/state/<host>/<config>.json    the stages' checkpoints
.halfstep/state/<host>/<config>.cures.json  what failures of this config were healed with
.halfstep/state/<host>/<config>.evidence.json  the last fixes and proof, for the report
.halfstep/state/<host>/<config>.lock    held by the verb that changes them
.halfstep/runs.lock                     held while a start is written down
.halfstep/runs/<run>/                   one run: run.json, tensorboard/, output.log, adapter/, report.html
.halfstep/runs/<run>@<host>/            a run of the same id on another host
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.find import RECORDS_FOLDER
from pipeline.records.files import write_whole
from remote.errors import BadUsage

NOTE = "run.json"


@dataclass(frozen=True)
class Records:
    """The `.halfstep/` of the project at `root`."""

    root: Path

    @property
    def folder(self) -> Path:
        """The `.halfstep/` itself. Raises BadUsage where it or a folder in it that is ours is a link.

        A project that was cloned may bring one, and what is written here must not land elsewhere.
        """
        folder = self.root / RECORDS_FOLDER
        for path in (folder, folder / "runs", folder / "state"):
            _refuse_link(path)
        return folder

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.folder / "runs"

    def folder_named(self, name: str) -> Path:
        """The folder of the run that is so named in this project. Raises BadUsage where it is a link."""
        _refuse_link(self.runs / name)
        return self.runs / name

    def run(self, run: str, host: str) -> Path:
        """The folder of one run on one host."""
        return self.folder_named(self.run_name(run, host))

    def run_name(self, run: str, host: str) -> str:
        """What names that run in this project: its id, and its host where another host had a run of that id first."""
        apart = f"{run}@{safe_name(host)}"
        if (self.runs / apart).is_dir():
            return apart
        return run if _host_of(self.runs / run / NOTE) in ("", host) else apart

    @property
    def runs_lock(self) -> Path:
        """Held while a start is written down."""
        return self.folder / "runs.lock"

    def checkpoints(self, host: str, config: str) -> Path:
        """The stages' checkpoints of one config on one host."""
        return self.folder / "state" / safe_name(host) / f"{safe_name(config)}.json"

    def cures(self, host: str, config: str) -> Path:
        """What failures of the config were healed with."""
        return self.folder / "state" / safe_name(host) / f"{safe_name(config)}.cures.json"

    def evidence(self, host: str, config: str) -> Path:
        """The last fixes, proof and cures."""
        return self.folder / "state" / safe_name(host) / f"{safe_name(config)}.evidence.json"

    def lock(self, host: str, config: str) -> Path:
        """Held by the verb that changes any of them."""
        return self.folder / "state" / safe_name(host) / f"{safe_name(config)}.lock"

    def prepare(self) -> None:
        """The folder is there and hides itself from git."""
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            write_whole(ignore, b"*\n")


def _host_of(note: Path) -> str:
    """The host in a run's note; empty where there is no note that can be read."""
    try:
        return str(json.loads(note.read_bytes())["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _refuse_link(path: Path) -> None:
    if path.is_symlink():
        words = f"{path} is a link: what halfstep remembers of a project lies in the project itself"
        raise BadUsage(words, where=str(path), hint=f"rm {shlex.quote(str(path))}")


def safe_name(name: str) -> str:
    """`name` as one path component."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"
