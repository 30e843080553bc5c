"""Paths on the host. Every path is built in this module, as POSIX text relative to the workdir.

payload/<sha256>.pyz              the agent's program
projects/<key>/owner.json         the laptop and folder that the project belongs to
projects/<key>/lock               held while the project is changed
projects/<key>/sync.json          the manifest: the digests of each file as sent and as installed, and its fixers
projects/<key>/stats.json         size, times and inode of each file when its digest was computed
projects/<key>/staging/           received contents by digest, before they are moved into the tree
projects/<key>/commit.json        an unfinished change of the tree; the next request completes it
projects/<key>/tree/              the project's files for the next job
projects/<key>/environment.json   facts about each interpreter
projects/<key>/undo/              the originals of files that were changed, for undo
projects/<key>/data/<digest>/     large data, sent separately from the code
projects/<key>/large/             copies of the tree's large files that runs share by hard links
projects/<key>/cache/             decoded audio, features, tiny models
projects/<key>/scratch/<nonce>/   the folder of a proof; removed afterwards
projects/<key>/arrays/<name>/     links to the logs of a Slurm array's tasks
projects/<key>/runs/<run>/        one run, see `RunLayout`
"""

from __future__ import annotations

import hashlib
import re
from typing import Annotated

from remote.protocol.dataclass import dataclass

PAYLOAD = "payload"
PROJECTS = "projects"
GPU_EVENTS = "gpu"
OUTPUT = "output.log"
LONGEST_RUN = 200
OTHER_WORKDIR = "set `workdir:` to a folder of your own"
"""The hint for a workdir that is not writable."""
TRUST_OWNER = (
    f"{OTHER_WORKDIR}; or, if you trust the owner, write `workdir:` into the host file and confirm it at a terminal "
    "with: pipeline hosts check {}"
)
"""The hint for a workdir below a folder of another user. `{}` is the host's name."""
WORKDIR_OF_VOLUME = "halfstep"
"""The name of halfstep's workdir on a mounted volume."""


@dataclass(frozen=True)
class ProjectLayout:
    """The folders of one project under the workdir."""

    key: str

    @property
    def root(self) -> str:
        return f"{PROJECTS}/{self.key}"

    @property
    def tree(self) -> str:
        return f"{self.root}/tree"

    @property
    def manifest(self) -> str:
        return f"{self.root}/sync.json"

    @property
    def stats(self) -> str:
        return f"{self.root}/stats.json"

    @property
    def staging(self) -> str:
        return f"{self.root}/staging"

    @property
    def commit(self) -> str:
        return f"{self.root}/commit.json"

    @property
    def environment(self) -> str:
        return f"{self.root}/environment.json"

    @property
    def undo(self) -> str:
        return f"{self.root}/undo"

    @property
    def data(self) -> str:
        return f"{self.root}/data"

    @property
    def large(self) -> str:
        return f"{self.root}/large"

    @property
    def cache(self) -> str:
        return f"{self.root}/cache"

    @property
    def scratch(self) -> str:
        return f"{self.root}/scratch"

    @property
    def runs(self) -> str:
        return f"{self.root}/runs"

    @property
    def lock(self) -> str:
        return f"{self.root}/lock"

    @property
    def owner(self) -> str:
        return f"{self.root}/owner.json"

    @property
    def arrays(self) -> str:
        return f"{self.root}/arrays"

    def run(self, run: str) -> RunLayout:
        return RunLayout(f"{self.runs}/{run}")


@dataclass(frozen=True)
class RunLayout:
    """One run's folder: its settings (run.json), its code, its jobs 1, 2, ... and their results."""

    root: str

    @property
    def record(self) -> str:
        return f"{self.root}/run.json"

    @property
    def lock(self) -> str:
        return f"{self.root}/lock"

    @property
    def code(self) -> str:
        return f"{self.root}/code"

    @property
    def tensorboard(self) -> str:
        return f"{self.root}/tensorboard"

    @property
    def gpu_events(self) -> str:
        """The event files with the load of the GPUs, written by the supervisor."""
        return f"{self.tensorboard}/{GPU_EVENTS}"

    @property
    def sent_checkpoints(self) -> str:
        """The trainer checkpoints that were sent with the project. See checkpoints.found."""
        return f"{self.root}/sent-checkpoints.json"

    @property
    def sent_files(self) -> str:
        """A folder with the names of the files in each new copy of the code. See jobs.code_copy."""
        return f"{self.root}/sent-files"

    @property
    def checkpoints(self) -> str:
        return f"{self.root}/checkpoints"

    @property
    def adapter(self) -> str:
        return f"{self.root}/adapter"

    @property
    def watched(self) -> str:
        return f"{self.root}/watch.jsonl"

    @property
    def progress(self) -> str:
        """The newest step, written atomically by the trainer or the hooks. See jobs.Progress."""
        return f"{self.root}/progress.json"

    @property
    def memory(self) -> str:
        """The memory plan of the built-in trainer. See training.MemoryPlan."""
        return f"{self.root}/memory.json"

    @property
    def revisions(self) -> str:
        """The commits to which the built-in trainer resolved hub revisions."""
        return f"{self.root}/revisions.json"

    def job(self, number: int) -> JobLayout:
        return JobLayout(f"{self.root}/jobs/{number}")


@dataclass(frozen=True)
class JobLayout:
    """One training process: its spec, its supervisor, its output, its result."""

    root: str

    @property
    def spec(self) -> str:
        return f"{self.root}/spec.json"

    @property
    def supervisor(self) -> str:
        return f"{self.root}/supervisor.json"

    @property
    def progress(self) -> str:
        """The last progress of a job, moved here from the run's folder when the next job starts."""
        return f"{self.root}/progress.json"

    @property
    def output(self) -> str:
        return f"{self.root}/{OUTPUT}"

    @property
    def ranks(self) -> str:
        """The output of each process that torchrun starts."""
        return f"{self.root}/ranks"

    @property
    def supervisor_log(self) -> str:
        return f"{self.root}/supervisor.log"

    @property
    def flags(self) -> str:
        return f"{self.root}/flags.json"

    @property
    def gauges(self) -> str:
        """GPU load and losses of the running job, rewritten every few seconds. See gauges.Gauges."""
        return f"{self.root}/gauges.json"

    @property
    def stop(self) -> str:
        return f"{self.root}/stop.json"

    @property
    def submitted(self) -> str:
        return f"{self.root}/submitted.json"

    @property
    def queued(self) -> str:
        return f"{self.root}/queued.json"

    @property
    def reserve(self) -> str:
        """Disk space that is reserved while the job runs, so that its result can be written to a full disk."""
        return f"{self.root}/reserve"

    @property
    def exit(self) -> str:
        return f"{self.root}/exit.json"

    @property
    def result(self) -> str:
        return f"{self.root}/result.json"


def project_key(name: str, identity: str) -> str:
    """Return a readable and safe folder name for a project, which differs for each laptop and folder."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:40] or "project"
    return f"{readable}-{hashlib.sha256(identity.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def valid_run(name: str) -> str:
    """Return the id of a run with other characters than those of `run_name` replaced."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".-")[:LONGEST_RUN] or "_"


RunId = Annotated[str, valid_run]
OptionalRunId = Annotated[str, lambda name: valid_run(name) if name else ""]
"""A run id, or "" for no run."""


def run_name(config: str, fingerprint: str, serial: int = 1) -> str:
    """Return the id of a run. Equal inputs give the same id, so that a run is not started twice."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", config).strip("-.")[:40] or "run"
    suffix = "" if serial == 1 else f"-{serial}"
    return f"{readable}-{fingerprint[:8]}{suffix}"
