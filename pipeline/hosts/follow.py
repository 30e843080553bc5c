"""Follow a job to its end and report its progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from pipeline.messages.listener import Listener
from pipeline.messages.outcome import MAX_FINDINGS
from pipeline.records.last_seen import note_job
from remote.errors import HalfstepError
from remote.host import Host
from remote.operations.jobs import follow_job
from remote.protocol.jobs import JobNews, WatchNote
from remote.protocol.quantities import duration
from remote.protocol.text import one_line
from remote.pull.reconnect import RetryPolicy

RECORD_S = 15.0
"""The interval at which the state of a followed job is recorded."""


def follow_to_end(
    host: Host,
    project: str,
    run: str,
    listener: Listener,
    folder: Path | None = None,
    is_known: Callable[[WatchNote], bool] = lambda _: False,
) -> JobNews | None:
    """Follow a job and return its last event, or None if the job sent none.

    The state of the job is recorded in `folder`, the local folder of the run, every RECORD_S seconds and at the end, so
    that `status` can show it while the host is unreachable. Notes for which `is_known` returns True, and notes after
    the first MAX_FINDINGS, are not shown. A lost connection is reopened.
    """
    last: JobNews | None = None
    recorded_at = -math.inf
    try:
        for news in follow_job(host, project, run, retry=announcing_retries(listener)):
            for note in news.watched[len(last.watched) if last is not None else 0 : MAX_FINDINGS]:
                if not is_known(note):
                    listener.note(note_in_words(run, note))
            last = news
            if folder is not None and time.monotonic() - recorded_at >= RECORD_S:
                recorded_at = time.monotonic()
                _record(folder, news)
            listener.training(news)
    finally:
        if folder is not None and last is not None:
            _record(folder, last)
    return last


def note_in_words(run: str, note: WatchNote) -> str:
    """Return one line with the message, the step and the check of a WatchNote."""
    if note.severity == "info":
        return one_line(f"{run} {note.message}")
    return one_line(f"{note.severity}: {note.message} (step {note.step})  [{note.check}]")


def _record(folder: Path, news: JobNews) -> None:
    seen = (news.progress, news.result, news.gauges, news.run_elapsed_s)
    note_job(folder, news.state, *seen, number=news.number, waits=news.waits, earlier_s=news.earlier_s)


def announcing_retries(listener: Listener) -> RetryPolicy:
    """Return the default retry policy for lost connections, extended to report each retry."""

    def report(error: HalfstepError, wait_s: float) -> None:
        listener.progress(f"{error.message}; retrying in {duration(wait_s)}")

    return RetryPolicy(on_lost=report)
