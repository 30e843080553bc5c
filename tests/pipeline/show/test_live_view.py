"""The live view of a running stage: recorded screens, lost connections, and a clean terminal afterwards.

To record the screens again: HALFSTEP_RECORD=1 pytest tests/pipeline/show/test_live_view.py, then read the diff.
"""

from __future__ import annotations

import io
import os
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from pipeline.messages.outcome import Outcome, StageOutcome, StageState
from pipeline.show.live_view import LiveView
from pipeline.show.screen import Screen
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobNews, JobState, Progress

SCREENS = Path(__file__).parent / "screens"
GIB = 2**30
CARD = GpuUse(0, 97.0, int(18.2 * GIB), 24 * GIB, 71.0)
LOSSES = tuple(2.0 / (1 + step / 8) for step in range(40))
MIXED = Progress(
    40,
    120,
    loss=0.3333,
    loss_scale=65536.0,
    skipped_steps=2,
    best_loss=0.3312,
    pace_seconds=1.82,
    tokens_per_second=4210.0,
)
NEWS = {
    "training": JobNews(1, JobState.RUNNING, MIXED, gauges=Gauges((CARD,), LOSSES), elapsed_s=94.0),
    "starting": JobNews(1, JobState.RUNNING, gauges=Gauges((CARD,)), elapsed_s=12.0),
    "own-script": JobNews(1, JobState.RUNNING, Progress(40, loss=0.33, step_seconds=0.4), elapsed_s=94.0),
    "stalled": JobNews(1, JobState.RUNNING, MIXED, stalled=True, elapsed_s=94.0),
    "eight-gpus": JobNews(
        1,
        JobState.RUNNING,
        MIXED,
        gauges=Gauges(tuple(GpuUse(n, 90.0 + n, n * GIB, 80 * GIB, 60.0 + n) for n in range(8))),
        elapsed_s=94.0,
    ),
}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def view_of(width: int, encoding: str = "utf-8") -> tuple[LiveView, Console, Clock]:
    clock = Clock()
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(file=file, width=width, height=30, force_terminal=True, color_system=None)
    return LiveView(console, keeps_stdout=False, time_s=clock), console, clock


def drawn(view: LiveView, console: Console) -> str:
    paper = Console(file=io.StringIO(), width=console.width, color_system=None)
    paper.print(view.render())
    return "".join(f"{line.rstrip()}\n" for line in paper.file.getvalue().splitlines())


def check_recorded(name: str, text: str) -> None:
    path = SCREENS / f"{name}.txt"
    if os.environ.get("HALFSTEP_RECORD"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [100, 60])
@pytest.mark.parametrize("name", NEWS)
def test_the_training_is_drawn_as_recorded(name: str, width: int) -> None:
    view, console, clock = view_of(width)
    view.start("train")
    view.training(NEWS[name])
    clock.now += 3.0
    text = drawn(view, console)
    view.stop()
    assert max(map(len, text.splitlines())) <= width
    check_recorded(f"{name}-{width}", text)


@pytest.mark.parametrize("width", [100, 72, 60])
@pytest.mark.parametrize("name", [*NEWS, "message"])
def test_the_last_columns_stay_empty_for_the_echo_of_ctrl_c(name: str, width: int) -> None:
    """A line that wraps because the terminal echoes ^C stays on the screen."""
    view, console, _ = view_of(width)
    view.start("verify")
    view.message("running the real command for two optimizer steps, then something longer than a line", 0.5)
    if name in NEWS:
        view.training(NEWS[name])
    lines = drawn(view, console).splitlines()
    view.stop()
    assert max(map(len, lines)) <= width - len("^C^C")


def test_a_terminal_without_unicode_gets_ascii_only() -> None:
    view, console, _ = view_of(80, encoding="ascii")
    view.start("train")
    view.training(NEWS["training"])
    text = drawn(view, console)
    view.stop()
    assert text.isascii(), text


def test_a_lost_connection_shows_the_age_of_the_last_update_until_the_next_one() -> None:
    view, console, clock = view_of(100)
    view.start("train")
    view.training(NEWS["training"])
    clock.now += 35.0
    view.message("the line to titan went away; retrying in 4.0 s", None)
    assert "    the line to titan went away; retrying in 4.0 s; last update 35 s ago\n" in drawn(view, console)
    view.training(NEWS["training"])
    assert "ago" not in drawn(view, console)
    view.stop()


def test_a_silent_host_shows_the_age_of_the_last_update() -> None:
    view, console, clock = view_of(100)
    view.start("train")
    view.training(NEWS["training"])
    clock.now += 14.0
    assert "ago" not in drawn(view, console)
    clock.now += 6.0
    assert "    last update 20 s ago\n" in drawn(view, console)
    view.stop()


@pytest.mark.parametrize(("message", "share"), [("sending 12 files", 0.4), ("x" * 200, None), ("", None)])
def test_another_stage_is_one_line(message: str, share: float | None) -> None:
    view, console, clock = view_of(60)
    view.start("sync")
    view.message(message, share)
    clock.now += 3.0
    text = drawn(view, console)
    view.stop()
    assert len(text.splitlines()) == 1 and len(text.rstrip("\n")) <= 60
    assert text.rstrip().endswith("0:03") and (share is None or "40 %" in text)


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, kind: str = "xterm") -> Terminal:
    """Stderr is a terminal of 80 columns."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in {"TERM": kind, "COLUMNS": "80", "LINES": "24"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return terminal


def test_after_ctrl_c_the_view_is_erased_and_the_cursor_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    with pytest.raises(KeyboardInterrupt), Screen() as screen:
        screen.stage_started("train")
        screen.training(NEWS["training"])
        raise KeyboardInterrupt
    written = terminal.getvalue()
    assert written.rindex("\x1b[?25h") > written.rindex("\x1b[?25l"), "the cursor is hidden"
    assert written.endswith(("\x1b[2K", "\x1b[1A\x1b[2K")), "the last thing written erases the view"


def test_lines_for_a_pipe_stay_in_it_while_the_view_is_on_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal, pipe = on_a_terminal(monkeypatch), io.StringIO()
    monkeypatch.setattr("sys.stdout", pipe)
    with Screen() as screen:
        screen.stage_started("train")
        screen.note("resuming from checkpoint-8")
    assert pipe.getvalue() == "  resuming from checkpoint-8\n"
    assert "resuming" not in terminal.getvalue()


def test_a_note_moves_the_view_down_and_is_not_printed_into_it(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    with Screen() as screen:
        screen.stage_started("train")
        screen.training(NEWS["training"])
        screen.note("resuming from checkpoint-8")
    before, _, after = terminal.getvalue().partition("resuming from checkpoint-8")
    assert before.rpartition("\n")[2].endswith("\x1b[2K  "), "the note begins on a line that was cleared"
    assert "train" in after.partition("\n")[2], "the view is drawn again below the note"


def whole_run(screen: Screen) -> None:
    """A run as the verb reports it, on a host that was just made ready."""
    screen.heading("tiny on titan")
    screen.stage_ended(StageOutcome("sync", StageState.SKIPPED, reason="15 files are on the host"))
    screen.stage_started("verify")
    screen.progress("running the real command for two optimizer steps")
    screen.stage_ended(StageOutcome("verify", StageState.DONE, 8.6, "proved for fp16-mixed"))
    screen.stage_started("train")
    screen.training(NEWS["starting"])
    for step in (1, 2, 40):
        screen.training(replace(NEWS["training"], progress=replace(MIXED, step=step)))
    screen.note("warning: the loss is 0.0 (step 40)  [zero-loss]")
    done = replace(MIXED, step=120)
    screen.training(JobNews(1, JobState.SUCCEEDED, done, elapsed_s=220.0))
    screen.stage_ended(StageOutcome("train", StageState.DONE, 221.0, "tiny-0123abcd: 120 steps, loss 0.3333"))
    screen.closing(Outcome("run", artifacts={"report": "/home/me/speech/.halfstep/runs/tiny-0123abcd/report.html"}))


@pytest.mark.parametrize("kind", ["dumb", "piped"])
def test_where_nothing_can_be_redrawn_a_run_is_printed_as_recorded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = on_a_terminal(monkeypatch, "dumb") if kind == "dumb" else io.StringIO()
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, page)
    monkeypatch.setenv("COLUMNS", "60")
    with Screen() as screen:
        whole_run(screen)
    check_recorded(kind, page.getvalue())


def test_NO_COLOR_leaves_no_colour_in_the_live_view(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    with Screen() as screen:
        whole_run(screen)
    assert "step 120 of 120" in terminal.getvalue()
    assert re.search(r"\x1b\[[0-9;]*m", terminal.getvalue()) is None


def test_a_dumb_terminal_gets_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_a_terminal(monkeypatch, "dumb")
    with Screen() as screen:
        screen.stage_started("train")
        screen.training(NEWS["starting"])
        for _ in range(20):
            screen.training(NEWS["training"])
    assert terminal.getvalue().splitlines() == ["  the job is starting", "  step 40 of 120, mean loss 0.3333   33 %"]
