"""Recorded screens of the verbs in several terminals: two sizes, without colours, dumb, and in a pipe.

To record them again: HALFSTEP_RECORD=1 pytest tests/pipeline/show/test_screens.py, then read the diff.
"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyte
import pytest

from pipeline.cli.main import run
from pipeline.messages.outcome import JobOutcome, Outcome, StageOutcome, StageState
from pipeline.records.last_seen import job_last_seen, note_job
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, read_note, write_note
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from pipeline.show.screen import Screen
from pipeline.verbs.verify import verdict
from remote.payload.output.event_writer import EventWriter
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from remote.protocol.gauges import Gauges, GpuUse
from remote.protocol.jobs import JobNews, JobResult, JobState, Progress
from tests.lab.sshd import nobody_listens

SCREENS = Path(__file__).parent / "screens"
GIVEN = ("--host", "titan", "--config", "paper_r64")
RUN = "paper_r64-0123abcd"
DEEP = "/home/somebody/projects/pronunciation/speech-scoring/src/models/collator.py:118"


@dataclass(frozen=True)
class Look:
    """The terminal in which the output is shown. `kind` is TERM; without columns it is a pipe."""

    name: str
    columns: int = 0
    lines: int = 30
    kind: str = "xterm-256color"
    no_color: bool = False


LOOKS = (
    Look("100x30", 100, 30),
    Look("60x20", 60, 20),
    Look("no-color", 100, 30, no_color=True),
    Look("dumb", 60, 20, kind="dumb"),
    Look("pipe"),
)


class Page(io.StringIO):
    """A stream that is a terminal, or is not."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    @property
    def encoding(self) -> str:
        return "utf-8"

    def isatty(self) -> bool:
        return self.is_terminal


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a finished run, one that trains, and one that was stopped; no host answers."""
    monkeypatch.chdir(tmp_path)
    records = Records(tmp_path)
    with nobody_listens() as port:
        host = {"host": "127.0.0.1", "port": port}
        now = time.time()
        for number, (name, config) in enumerate(
            (("tiny-8f4b20aa", "tiny"), ("own-77d1e0c3", "own"), (RUN, "paper_r64"))
        ):
            began = now - 3600 * (3 - number) - 30
            write_note(records, RunNote(name, "titan", config, "key", began, host, start=number + 1))
        card = GpuUse(0, 97.0, int(18.2 * 2**30), 24 * 2**30, 71.0)
        done = Progress(36, 36, loss=2.0551, best_loss=1.914)
        note_job(records.folder_named("tiny-8f4b20aa"), JobState.SUCCEEDED, done, JobResult(0), None, 57.0, 1.7e9)
        half = Progress(400, 1200, loss=0.3333, best_loss=0.3312, pace_seconds=1.82)
        note_job(records.folder_named(RUN), JobState.RUNNING, half, None, Gauges((card,)), 728.0, 1.7e9)
        at = Progress(12, 60, loss=1.5)
        note_job(records.folder_named("own-77d1e0c3"), JobState.STOPPED, at, JobResult(143, stopped=True), None, 30.0)
        writer = EventWriter(str(records.folder_named(RUN) / "tensorboard"))
        for step in (399, 400):
            values = {"loss": 0.4 - step / 9999, "grad_norm": 1.25, "learning_rate": 2e-5, "tokens_per_second": 4210.0}
            values |= {"peak_memory_bytes": 18.2 * 2**30, "loss_scale": 65536.0, "skipped_steps": 2.0}
            writer.add(step, {f"train/{name}": value for name, value in values.items()}, 1000.0 + step)
        save_report(records.folder_named(RUN), RunReport(RUN, "paper_r64", "titan", Verdict.RUNNING))
        yield tmp_path


def shown_run() -> None:
    """Show `run` on a host that is ready, whose training fails in the end."""
    with Screen() as screen:
        screen.heading("paper_r64 on titan")
        screen.stage_ended(StageOutcome("sync", StageState.SKIPPED, reason="15 files are on the host"))
        screen.stage_ended(
            StageOutcome("environment", StageState.DONE, 4.1, "Python 3.11.7, torch 2.8.0+cu126, TITAN RTX 7.5")
        )
        screen.stage_started("verify")
        screen.progress("running the real command until two optimizer steps take effect")
        words = "fp16-mixed works: 1.8 s per step, about 36 min for all steps, micro-batch 4 x 16, 20 of 32 layers kept"
        screen.stage_ended(StageOutcome("verify", StageState.DONE, 28.0, words))
        screen.stage_started("train")
        running = Progress(400, 1200, loss=0.3333, best_loss=0.3312, pace_seconds=1.82)
        screen.training(JobNews(1, JobState.RUNNING, running, elapsed_s=728.0))
        screen.note("warning: the loss is 0.0 (step 400)  [zero-loss]")
        screen.stage_ended(
            StageOutcome("train", StageState.FAILED, 730.0, "the job failed, exit 1. Its output says why")
        )
        finding = Finding.error(
            "cuda-out-of-memory",
            "CUDA out of memory: tried to allocate 2.31 GiB. GPU 0 has a total capacity of 23.65 GiB",
            DEEP,
            "pipeline run --set train.gradient_checkpointing=true",
        )
        screen.closing(Outcome("run", ExitCode.TRAINING, "titan", "paper_r64", RUN, findings=(finding,), given=GIVEN))


def shown_status() -> None:
    """Show `status` of a run that trains, as its host answers."""
    note = read_note(Records(Path.cwd()).folder_named(RUN))
    assert note is not None
    screen = Screen()
    screen.heading(f"{RUN} on titan")
    card = GpuUse(0, 97.0, int(18.2 * 2**30), 24 * 2**30, 71.0)
    losses = tuple(2.0 / (1 + step / 8) for step in range(40))
    outcome = Outcome("status", host="titan", config="paper_r64", run=RUN)
    job = replace(_job(note), gpus=(card, replace(card, index=1)), losses=losses, step_s=1.82)
    screen.job(job)
    stalled = Finding.warning("stalled", "no optimizer step for a long time", RUN, f"pipeline logs -f {RUN}")
    screen.closing(replace(outcome, findings=(stalled,)))


def _job(note: RunNote) -> JobOutcome:
    return replace(job_last_seen(note, note.seen_unix), age_s=None)


def shown_verify() -> None:
    """Show `verify` of a config with a warning and an error."""
    screen = Screen()
    screen.heading("paper_r64 on titan: checking only")
    for name, reason in (("sync", "3 files differ from those on the host"), ("fix", "2 files would be rewritten")):
        screen.stage_ended(StageOutcome(name, StageState.PENDING, reason=reason))
    screen.note("fp16-mixed: compute capability 7.5 has no bfloat16; weights float16, adapter float32, loss scaled")
    findings = (
        Finding.warning(
            "labels-prompt",
            "92% of all real positions are learnt, prompts among them",
            DEEP,
            "pipeline explain labels-prompt",
        ),
        Finding.error(
            "finite-loss", "the loss is NaN in step 2: float16 cannot hold the values of logits / temperature", DEEP
        ),
    )
    outcome = Outcome("verify", ExitCode.PRECISION, "titan", "paper_r64", findings=findings, given=GIVEN)
    screen.closing(outcome)
    screen.line(verdict(outcome, 23, [f"check {number}" for number in range(11)]))


SHOWN: dict[str, Callable[[], object]] = {
    "run": shown_run,
    "status": shown_status,
    "status (unreachable)": lambda: run(["status"]),
    "list": lambda: run(["list"]),
    "report": lambda: run(["report"]),
    "tail": lambda: run(["tail"]),
    "verify": shown_verify,
}


def seen(look: Look, show: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """Return the final screen, and the characters that were written for it."""
    page = Page(is_terminal=bool(look.columns))
    for stream in ("stdout", "stderr"):
        monkeypatch.setattr(sys, stream, page)
    for name, value in {"TERM": look.kind, "COLUMNS": str(look.columns or 80), "LINES": str(look.lines)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    if look.no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    show()
    written = page.getvalue()
    if not look.columns:
        return written, written
    screen = pyte.Screen(look.columns, 300)
    pyte.Stream(screen).feed(written.replace("\n", "\r\n"))
    lines = [line.rstrip() for line in screen.display]
    return "\n".join(lines).rstrip("\n") + "\n", written


def steady(text: str, project: Path) -> str:
    """Return the text with variable parts replaced: ports, ages, and the folder of the project."""
    text = re.sub(r"(?<=127\.0\.0\.1:)\d{5}|(?<=port )\d{5}|(?<=port\n        )\d{5}", "22022", text)
    text = re.sub(r"\b\d[\d.]* m?s(?=\s+ago)", "0.1 s", text)
    return text.replace(str(project), "/home/me/speech")


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: look.name)
def test_the_screens_are_as_recorded(look: Look, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ""
    for name, show in SHOWN.items():
        shown, written = seen(look, show, monkeypatch)
        text += f"--- {name}\n{steady(shown, project)}"
        if look.no_color or look.kind == "dumb" or not look.columns:
            assert re.search(r"\x1b\[[0-9;]*m", written) is None, f"{name} has colours"
    path = SCREENS / f"verbs-{look.name}.txt"
    if os.environ.get("HALFSTEP_RECORD"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SHOWN)
def test_at_60_columns_no_word_and_no_path_is_broken(name: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every word of the narrow screen is one of the wide output, except the parts of a path longer than a line."""
    looks = (Look("wide", 400, 30), Look("60x20", 60, 20))
    whole, narrow = (steady(seen(look, SHOWN[name], monkeypatch)[0], project) for look in looks)
    known = set(whole.split())
    long_paths = [word for word in known if len(word) > 44 and "/" in word]
    # A long path is broken after a slash, and a command that goes on in the next line ends in a backslash.
    pieces = {"\\", *(path[:at] for path in long_paths for at in range(len(path)))}
    # The number of scalars that do not fit in a row.
    words = [word for word in narrow.split() if not re.fullmatch(r"\+[0-9]+", word)]
    assert [word for word in words if word not in known | pieces and not follows(word, long_paths)] == []
    assert max(map(len, narrow.splitlines())) <= 60


def follows(word: str, paths: list[str]) -> bool:
    """Return True for the remainder of a path that was broken after a slash, and for bars, which fill the width."""
    return any(f"/{word}" in path for path in paths) or set(word) <= set("▁▂▃▄▅▆▇█")
