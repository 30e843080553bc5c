"""Show the running stage at the bottom of a terminal: a spinner, or the progress bar of the training."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from textwrap import wrap

from rich.console import Console, Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from pipeline.show.plain import plain
from pipeline.show.spark import WIDTH, sparkline
from pipeline.show.training import clock, describe_age, describe_step, fold, gpu_lines, scale_parts, time_parts
from remote.protocol.dataclass import dataclass
from remote.protocol.jobs import JobNews, JobState, Progress
from remote.protocol.loss import loss_text, mean_loss_text

REDRAWS_PER_S = 8
INDENT = 4
ECHO_COLUMNS = 4
"""Columns that stay empty at the right: the terminal echoes ^C there, and a line that wraps would not be erased."""
BAR_COLUMNS = 40
QUIET_S = 15.0
"""The age of the last update is shown if it exceeds this many seconds and the duration of three steps."""


@dataclass(frozen=True)
class RunningStage:
    """The state of the running stage. Times are seconds of the monotonic clock."""

    name: str
    began: float
    message: str = ""
    share: float | None = None
    news: JobNews | None = None
    news_at: float = 0.0


class LiveView:
    """Shows one running stage. Other text that is printed to the terminal appears above the live view."""

    def __init__(self, console: Console, *, keeps_stdout: bool, time_s: Callable[[], float] = time.monotonic) -> None:
        """With `keeps_stdout`, output to stdout is not redirected to the console, because stdout is not a terminal."""
        self._console = console
        self._keeps_stdout = keeps_stdout
        self._time_s = time_s
        self._live: Live | None = None
        self._stage = RunningStage("", 0.0)
        self._spinner = Spinner("dots" if console.encoding.startswith("utf") else "line", style="cyan")

    def start(self, stage: str) -> None:
        """Show the stage with this name."""
        self._stage = RunningStage(stage, self._time_s())
        self._live = Live(
            console=self._console,
            get_renderable=self.render,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
            redirect_stdout=not self._keeps_stdout,
        )
        self._live.start(refresh=True)

    def stop(self) -> None:
        """Erase the view and show the cursor."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def message(self, text: str, share: float | None) -> None:
        """Show the current activity of the stage, and its progress `share` from 0 to 1."""
        self._stage = replace(self._stage, message=text, share=share)

    def training(self, news: JobNews) -> None:
        """Show the newest state of the job that the stage waits for."""
        self._stage = replace(self._stage, message="", share=None, news=news, news_at=self._time_s())

    def render(self) -> RenderableType:
        """Return the current state of the stage."""
        room = max(1, self._console.width - ECHO_COLUMNS)
        return Constrain(self._rendered(room), room)

    def _rendered(self, width: int) -> RenderableType:
        now, stage = self._time_s(), self._stage
        spinner = self._spinner.render(now)
        head = Text.assemble(spinner if isinstance(spinner, Text) else "", " ", (f"{plain(stage.name):<11} ", "bold"))
        took = clock(now - stage.began)
        if stage.news is None:
            share = f"  {100 * stage.share:.0f} %" if stage.share is not None else ""
            words = Text(plain(stage.message or "..."))
            words.truncate(max(10, width - head.cell_len - len(share) - len(took) - 3), overflow="ellipsis")
            return Text.assemble(head, words, share, (f"  {took}", "dim"), no_wrap=True, overflow="crop")
        head.append_text(Text(took, style="dim"))
        return Group(head, *_training(stage, stage.news, now - stage.news_at, width, unicode=self._unicode))

    @property
    def _unicode(self) -> bool:
        return self._console.encoding.startswith("utf")


def _training(
    stage: RunningStage, news: JobNews, age_s: float, width: int, *, unicode: bool
) -> Iterator[RenderableType]:
    """Yield the lines of a job, indented: bar, loss, times, loss scale, GPUs, and warnings."""
    progress, room = news.progress, width - INDENT - 1
    if progress is None:
        yield _line(news.waits or "the job is starting" if news.state is JobState.RUNNING else news.state.value)
    else:
        yield _bar(progress, room, unicode=unicode)
        if progress.loss is not None:
            best = f"  best {loss_text(progress.best_loss)}" if progress.best_loss is not None else ""
            words, losses = f"{mean_loss_text(progress.loss)}{best}", news.gauges.losses
            if unicode and len(losses) > 1:
                words += f"  {sparkline(losses, min(WIDTH, room - len(words) - 2))}"
            yield _line(words)
    scale = scale_parts(progress) if progress is not None else ()
    yield from map(_line, fold((*time_parts(progress, news.run_elapsed_s, age_s), *scale), room))
    yield from map(_line, gpu_lines(news.gauges.gpus))
    if news.stalled:
        yield _line("no new step for a long time", "yellow")
    if stage.message:
        words = f"{plain(stage.message)}; {describe_age(age_s)}"
        yield from (_line(line, "yellow") for line in wrap(words, room, break_on_hyphens=False))
    elif age_s > max(QUIET_S, 3 * ((progress and progress.pace_seconds) or 0.0)):
        yield _line(describe_age(age_s), "dim")


def _bar(progress: Progress, room: int, *, unicode: bool) -> Text:
    """Return the progress bar. Its two parts have different characters, so that they also differ without colours."""
    words, steps = plain(describe_step(progress)), progress.steps
    if not steps:
        return _line(words)
    words += f"  {100 * progress.step / steps:.0f} %"
    columns = max(8, min(BAR_COLUMNS, room - len(words) - 2))
    filled = max(0, min(columns, columns * progress.step // steps))
    done, left = ("━", "─") if unicode else ("#", "-")
    bar = ((done * filled, "green"), (left * (columns - filled), "dim"))
    return Text.assemble(" " * INDENT, *bar, "  ", words, no_wrap=True, overflow="ellipsis")


def _line(words: str, style: str = "") -> Text:
    return Text(" " * INDENT + plain(words), style=style, no_wrap=True, overflow="ellipsis")
