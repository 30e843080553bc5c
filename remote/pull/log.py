"""Download a job's output, read it without storing it, or follow it as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from remote.host import Host, Json, read_answer
from remote.project.paths import resolved
from remote.protocol.dataclass import dataclass
from remote.protocol.hidden import Identifier
from remote.protocol.layout import JobLayout, ProjectLayout
from remote.protocol.text import whole_number
from remote.pull.folder import Folder
from remote.pull.mirror import Mirror
from remote.pull.reconnect import RetryPolicy, follow_on
from remote.pull.report import PulledFile
from remote.pull.segments import SegmentReader, stream_limit
from remote.pull.transfer import Transfer

MAX_LOG_BYTES = 64 * 2**30
"""The maximum size of a log for `read_log`. `pull_log` has no such limit."""


def pull_log(host: Host, project_key: str, run: str, job: int, destination: Path) -> PulledFile:
    """Copy a job's output to jobs/N/output.log under `destination`. Only new data is transferred.

    The file of a job without output is empty. A log that was shortened or replaced on the host continues under a new
    name. Raises DiskFull, Busy, PullRefused.
    """
    name = JobLayout(f"jobs/{job}").output
    with Folder(destination) as folder:
        transfer = Transfer(folder, Mirror(folder, framed=False))
        transfer.prepare([name])
        for _, offset, tail in transfer.wants:
            args = {**_job(project_key, run, job), "offset": offset, "tail_sha256": tail}
            try:
                transfer.fetch(host, "log.read", args, transfer.wants)
            finally:
                folder.sync()
        with folder.opened(Mirror(folder, framed=False).newest(name)):
            pass
        return transfer.result(name)


def mirrored_log(destination: Path) -> Path | None:
    """Return the pulled output of the newest job in `destination`, or None."""
    jobs = [number for path in destination.glob("jobs/*") if (number := whole_number(path.name)) is not None]
    if not jobs:
        return None
    with Folder(destination) as folder:
        path = destination / Mirror(folder, framed=False).newest(JobLayout(f"jobs/{max(jobs)}").output)
    # The records of a cloned project may contain links to any file of the user.
    linked = resolved(path) != resolved(destination) / path.relative_to(destination)
    return path if path.is_file() and not linked else None


def read_log(
    host: Host,
    project_key: str,
    run: str,
    sink: Callable[[bytes], None],
    *,
    job: int = 0,
    lines: int | None = None,
) -> Json:
    """Pass the output of a job (0: the newest), or its last `lines` lines, to `sink`. Nothing is stored locally.

    The answer contains `job`, `offset` and `size`.
    """
    args = _job(project_key, run, job) | ({} if lines is None else {"lines": lines})
    reader = SegmentReader()

    def take(chunk: bytes) -> None:
        for segment in reader.feed(chunk):
            sink(segment.data)

    return host.fetch("log.read", args, take, limit=stream_limit(MAX_LOG_BYTES))


@dataclass(frozen=True)
class _Piece:
    """A part of the output, its offset, and the digest that the next request sends to continue after this part."""

    offset: int
    data: bytes
    tail_sha256: Identifier


def follow_log(
    host: Host,
    project_key: str,
    run: str,
    *,
    job: int = 0,
    lines: int | None = None,
    retry: RetryPolicy | None = None,
) -> Iterator[bytes]:
    """Yield the output of a job (0: the newest), from its beginning or last `lines` lines, until the job ends.

    After a lost connection, output resumes at the byte where it stopped.
    """
    at: Json = {} if lines is None else {"lines": lines}

    def args() -> Json:
        return _job(project_key, run, job) | at

    for event in follow_on(host, "follow.log", args, retry or RetryPolicy()):
        piece = read_answer(_Piece, host, event)
        at = {"offset": piece.offset + len(piece.data), "tail_sha256": piece.tail_sha256}
        yield piece.data


def _job(project_key: str, run: str, job: int) -> Json:
    return {"run": ProjectLayout(project_key).run(run).root, "job": job}
