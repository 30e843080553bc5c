"""The layout of a project's records in `.halfstep/`.

.halfstep/state/<host>/<config>.json    the stages' checkpoints
.halfstep/state/<host>/<config>.cures.json  the cures of the config
.halfstep/state/<host>/<config>.evidence.json  the last fixes and proof, for the report
.halfstep/state/<host>/<config>.lock    the lock of these files
.halfstep/schemas/                      the JSON Schemas of configs, for editors
.halfstep/export/<engine>-<config>/     an exported task
.halfstep/compared/<run>+<run>.html      a comparison of runs
.halfstep/runs.lock                     the lock for recording a start
.halfstep/runs/<run>/                   one run: run.json, inputs.json, tensorboard/, output.log, adapter/, report.html
.halfstep/runs/<run>@<host>/            a run of the same id on another host
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from stat import S_ISREG

from pipeline.config.schema import SCHEMAS
from pipeline.records.files import write_atomic
from remote.project.digests import read_json
from remote.project.records_folder import RECORDS_FOLDER, refuse_link, refuse_links
from remote.protocol.dataclass import dataclass
from remote.protocol.regular import read_regular

NOTE = "run.json"
PROOF_OUTPUT = ".proof.log"
LONGEST_STEM = 180


@dataclass(frozen=True)
class Records:
    """The `.halfstep/` folder of the project at `root`."""

    root: Path

    @property
    def folder(self) -> Path:
        """The `.halfstep/` folder. Raises BadUsage if it or one of its folders is a symbolic link.

        A cloned project may contain such a link to redirect writes.
        """
        folder = self.root / RECORDS_FOLDER
        for path in (folder, *(folder / name for name in ("runs", "state", "schemas", "export", "compared"))):
            refuse_link(path)
        return folder

    @property
    def runs(self) -> Path:
        """The folder of all runs."""
        return self.folder / "runs"

    def folder_named(self, name: str) -> Path:
        """Return the folder of the run `name`. Raises BadUsage for a symbolic link."""
        refuse_link(self.runs / name)
        return self.runs / name

    def in_run(self, name: str, *parts: str) -> Path:
        """Return a path in the folder of the run `name`. Raises BadUsage if a part of the path is a symbolic link."""
        return refuse_links(self.folder_named(name).joinpath(*parts))

    def run(self, run: str, host: str) -> Path:
        """Return the folder of a run on a host."""
        return self.folder_named(self.run_name(run, host))

    def run_name(self, run: str, host: str) -> str:
        """Return the run's name in this project: its id, with the host appended if another host has the same id."""
        with_host = f"{run}@{safe_name(host)}"
        if (self.runs / with_host).is_dir():
            return with_host
        return run if _host_of(self.runs / run / NOTE) in ("", host) else with_host

    def export(self, engine: str, config: str) -> Path:
        """Return the folder of a config's exported task for an engine. Raises BadUsage for a symbolic link."""
        folder = self.folder / "export" / f"{engine}-{safe_name(config)}"
        refuse_link(folder)
        return folder

    def comparison(self, names: Sequence[str]) -> Path:
        """Return the page on which these runs are compared. Raises BadUsage for a symbolic link."""
        stem = "+".join(names)
        if len(stem) > LONGEST_STEM:
            stem = f"{stem[:LONGEST_STEM]}-{hashlib.sha256(stem.encode()).hexdigest()[:8]}"
        page = self.folder / "compared" / f"{stem}.html"
        refuse_link(page)
        return page

    @property
    def runs_lock(self) -> Path:
        """The lock for recording a start."""
        return self.folder / "runs.lock"

    def _state(self, host: str) -> Path:
        """Return the folder with the stage checkpoints of a host. Raises BadUsage for a symbolic link."""
        folder = self.folder / "state" / safe_name(host)
        refuse_link(folder)
        return folder

    def checkpoints(self, host: str, config: str) -> Path:
        """Return the file with the stage checkpoints of a config on a host."""
        return self._state(host) / f"{safe_name(config)}.json"

    def cures(self, host: str, config: str) -> Path:
        """Return the file with the cures of a config on a host."""
        return self._state(host) / f"{safe_name(config)}.cures.json"

    def evidence(self, host: str, config: str) -> Path:
        """Return the file with the last fixes, proof and cures of a config on a host."""
        return self._state(host) / f"{safe_name(config)}.evidence.json"

    def proof_output(self, host: str, config: str) -> Path:
        """Return the file with the end of the output of the last proof that failed."""
        return self._state(host) / f"{safe_name(config)}{PROOF_OUTPUT}"

    def newest_proof_output(self, since_unix: float) -> Path | None:
        """Return the newest output of a proof that failed after the given time, or None if there is none."""
        found = [path for path in self.folder.glob(f"state/*/*{PROOF_OUTPUT}") if not path.parent.is_symlink()]
        times = {path: path.lstat() for path in found}
        newer = [path for path in found if S_ISREG(times[path].st_mode) and times[path].st_mtime > since_unix]
        return max(newer, key=lambda path: times[path].st_mtime, default=None)

    def locks(self) -> list[Path]:
        """Return the locks of all configs, of which a running `pipeline run` holds one."""
        return sorted((self.folder / "state").glob("*/*.lock"))

    def lock(self, host: str, config: str) -> Path:
        """Return the lock file of a config on a host."""
        return self._state(host) / f"{safe_name(config)}.lock"

    def prepare(self) -> None:
        """Create `.halfstep/` with a .gitignore that excludes it, and with the JSON Schemas to which configs refer."""
        ignore = self.folder / ".gitignore"
        if not ignore.exists():
            write_atomic(ignore, b"*\n")
        for source in SCHEMAS.glob("*.json"):
            copy, data = self.folder / "schemas" / source.name, source.read_bytes()
            with suppress(OSError):
                if read_regular(copy, len(data)) == data:
                    continue
            write_atomic(copy, data)


def _host_of(note: Path) -> str:
    """Return the host in a run's record, or "" if the record cannot be read."""
    try:
        return str(read_json(note)["host"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def safe_name(name: str) -> str:
    """Return `name` as one path component. Characters that are not allowed are replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".") or "_"
