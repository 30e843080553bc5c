"""What a project remembers in its `.halfstep/`, and where each thing lies there.

.halfstep/state/<host>/<config>.json    the stages' checkpoints
.halfstep/state/<host>/<config>.cures.json  what failures of this config were healed with
.halfstep/state/<host>/<config>.evidence.json  the last fixes and proof, for the report
.halfstep/state/<host>/<config>.lock    held by the verb that changes them
.halfstep/runs/<run>/                   one run: run.json, tensorboard/, output.log, adapter/, report.html
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pipeline.config.find import MEMORY, project_above
from pipeline.records.files import write_whole


@dataclass(frozen=True)
class Records:
    """The `.halfstep/` of the project at `root`."""

    root: Path

    @property
    def folder(self) -> Path:
        """The `.halfstep/` itself."""
        return self.root / MEMORY

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.folder / "runs"

    def run(self, run: str) -> Path:
        """The folder of one run."""
        return self.runs / run

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


def safe_name(name: str) -> str:
    """`name` as one path component."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"


def project_here(here: Path) -> Path:
    """The project that a verb without a config is about."""
    return project_above(here)
