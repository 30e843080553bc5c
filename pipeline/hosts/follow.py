"""Follow a job to its end and report its progress."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.messages.listener import Listener
from pipeline.records.last_seen import note_job
from remote.errors import HalfstepError
from remote.host import Host
from remote.operations.jobs import follow_job
from remote.protocol.jobs import JobNews, WatchNote
from remote.protocol.quantities import duration
from remote.protocol.text import one_line
from remote.pull.reconnect import RetryPolicy


def follow_to_end(
    host: Host,
    project: str,
    run: str,
    listener: Listener,
    on_news: Callable[[JobNews], None] = lambda _: None,
    is_known: Callable[[WatchNote], bool] = lambda _: False,
) -> JobNews | None:
    """Follow a job and return its last event, or None if the job sent none.

    `on_news` is called with each event. Notes for which `is_known` returns True are not shown. A lost connection is
    reopened.
    """
    last: JobNews | None = None
    for news in follow_job(host, project, run, retry=announcing_retries(listener)):
        for note in news.watched[len(last.watched) if last is not None else 0 :]:
            if not is_known(note):
                listener.note(note_in_words(run, note))
        last = news
        on_news(news)
        listener.training(news)
    return last


def note_in_words(run: str, note: WatchNote) -> str:
    """Return one line with the message, the step and the check of a WatchNote."""
    if note.severity == "info":
        return one_line(f"{run} {note.message}")
    return one_line(f"{note.severity}: {note.message} (step {note.step})  [{note.check}]")


def note_news(folder: Path, news: JobNews) -> None:
    """Record the last event of a job in the folder of its run."""
    seen = (news.progress, news.result, news.gauges, news.run_elapsed_s)
    note_job(folder, news.state, *seen, number=news.number, waits=news.waits, earlier_s=news.earlier_s)


def announcing_retries(listener: Listener) -> RetryPolicy:
    """Return the default retry policy for lost connections, extended to report each retry."""

    def report(error: HalfstepError, wait_s: float) -> None:
        listener.progress(f"{error.message}; retrying in {duration(wait_s)}")

    return RetryPolicy(on_lost=report)
