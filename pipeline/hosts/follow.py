"""A job followed to its end: news as they come, told as progress."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.messages.listener import Listener
from remote.errors import HalfstepError
from remote.host import Host
from remote.operations.jobs import follow_job
from remote.protocol.jobs import JobNews, JobState, WatchNote
from remote.protocol.quantities import duration
from remote.pull.patience import RetryPolicy


def follow_to_end(
    host: Host, project: str, run: str, listener: Listener, heard: Callable[[JobNews], None] = lambda _: None
) -> JobNews | None:
    """The last news of the job; None where there was none at all. `heard` is called with each."""
    last: JobNews | None = None
    for news in follow_job(host, project, run):
        for note in news.watched[len(last.watched) if last is not None else 0 :]:
            listener.note(note_in_words(run, note))
        last = news
        heard(news)
        if news.progress is not None:
            listener.progress(in_words(news), news.progress.step, news.progress.steps)
        elif news.state is JobState.RUNNING:
            listener.progress("the job is starting")
    return last


def note_in_words(run: str, note: WatchNote) -> str:
    """What the watch saw, as one line: a warning or an error with its step and check."""
    if note.severity == "info":
        return f"{run} {note.message}"
    return f"{note.severity}: {note.message} (step {note.step})  [{note.check}]"


def announcing_retries(listener: Listener) -> RetryPolicy:
    """The usual patience with a lost line, each loss and each wait told as it happens."""

    def told(error: HalfstepError, wait_s: float) -> None:
        listener.progress(f"{error.message}; trying again in {duration(wait_s)}")

    return RetryPolicy(on_lost=told)


def in_words(news: JobNews) -> str:
    """'step 40 of 120, loss 1.83'."""
    progress = news.progress
    if progress is None:
        return news.state.value
    steps = f" of {progress.steps}" if progress.steps else ""
    loss = f", loss {progress.loss:.4g}" if progress.loss is not None else ""
    slow = ", no new step for long" if news.stalled else ""
    return f"step {progress.step}{steps}{loss}{slow}"
