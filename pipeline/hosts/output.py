"""Read a run's output from its host or, if the host is unreachable, from the local copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from pipeline.hosts.not_begun import judge_begun
from pipeline.hosts.open_run import UNREACHABLE_OR_GONE, open_note, unreachable_warning
from pipeline.hosts.tail import blocks_of, tail_of
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote
from remote.errors import HalfstepError
from remote.link.prompter import Prompter
from remote.protocol.findings import Finding
from remote.protocol.quantities import duration
from remote.protocol.regular import open_regular
from remote.pull.log import follow_log, mirrored_log, read_log
from remote.pull.reconnect import RetryPolicy


def read_output(
    note: RunNote,
    records: Records,
    sink: Callable[[bytes], None],
    *,
    lines: int | None = None,
    follow: RetryPolicy | None = None,
    on_wait: Callable[[str], None] = lambda message: None,
    prompter: Prompter | None = None,
) -> tuple[Finding, ...]:
    """Write the output of the run's newest job, or its last `lines` lines, to `sink`.

    With `follow`, a retry policy for lost connections, continue until the job ends. Return a warning if the job has not
    begun, and pass this warning to `on_wait` before a queued job is followed. If the host is unreachable, write
    the local copy, and return a warning with the age of the copy. Raises HalfstepError if the local copy cannot be read
    either.
    """
    seen = False
    folder = records.folder_named(note.name)

    def take(data: bytes) -> None:
        nonlocal seen
        seen = True
        sink(data)

    try:
        with open_note(note, records, prompter=prompter, keep=False) as opened:
            if follow is None:
                read_log(opened.host, note.project, note.run, take, lines=lines)
            else:
                for finding in judge_begun(note, opened.survey()):
                    on_wait(finding.message)
                for chunk in follow_log(opened.host, note.project, note.run, lines=lines, retry=follow):
                    take(chunk)
            return () if seen else judge_begun(note, opened.survey())
    except HalfstepError as error:
        path = mirrored_log(folder)
        if path is None or seen or error.exit_code not in UNREACHABLE_OR_GONE:
            raise
        with open_regular(path) as file:
            for block in blocks_of(file) if lines is None else (tail_of(file).end(lines)[0],):
                sink(block)
            age = duration(max(0.0, time.time() - os.fstat(file.fileno()).st_mtime))
        return (unreachable_warning(note, error, f"this is {path.relative_to(folder).as_posix()} as pulled {age} ago"),)
