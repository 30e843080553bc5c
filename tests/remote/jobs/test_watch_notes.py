"""Notes of the live watch reach followers of a job and later surveys."""

from __future__ import annotations

import json
import time
from pathlib import Path

from remote.operations.jobs import follow_job, stop_job
from remote.payload.jobs.watch_notes import read_watch_notes
from remote.protocol.findings import UNNAMED
from remote.protocol.jobs import JobState, Started
from remote.protocol.layout import RunLayout
from remote.protocol.values import dumps
from tests.lab.wait import until
from tests.remote.jobs.jobs_bench import PROJECT, Bench


def line(check: str, at_unix: float, **more: object) -> str:
    row = {"check": check, "severity": "warning", "message": "seen", "step": 7, "rank": 0, "at_unix": at_unix}
    return json.dumps({**row, **more}) + "\n"


def test_only_the_first_note_of_each_check_of_this_job_is_reported(tmp_path: Path):
    run = RunLayout(str(tmp_path))
    assert read_watch_notes(run, None) == ()
    lines = [
        line("skipped-steps", 10.0, message="of the job before"),
        line("memory-creep", 100.0, message="rank 0"),
        "[]\n",
        line("memory-creep", 100.5, message="rank 1", rank=1),
        line("adapter-gradient", 101.0)[:-9],
    ]
    Path(run.watched).write_text("".join(lines))
    seen = read_watch_notes(run, Started(1, 1, "b", started_unix=99.0))
    assert [(note.check, note.message) for note in seen] == [("memory-creep", "rank 0")]
    assert {note.check for note in read_watch_notes(run, None)} == {"memory-creep", "skipped-steps"}


def test_a_note_of_the_watch_reaches_followers_at_once_and_later_surveys(bench: Bench):
    bench.start("--steps", 100000, "--step-s", 0.02)
    until(lambda: bench.survey().progress, "a step")
    news = follow_job(bench.host, PROJECT, bench.run)
    assert next(news).watched == ()
    Path(bench.layout.watched).write_text(line("memory-creep", time.time()))
    update = next(one for one in news if one.watched)
    assert (update.state, [note.check for note in update.watched]) == (JobState.RUNNING, ["memory-creep"])
    stop_job(bench.host, PROJECT, bench.run)
    assert [note.check for note in bench.survey().watched] == ["memory-creep"]


def test_SE_21_a_line_that_the_training_wrote_is_no_obstacle_to_a_survey(tmp_path: Path):
    run = RunLayout(str(tmp_path))
    strange = ("[" * 100_000 + "\n", line("memory-creep", 1.0, step=1e999), line("memory-creep", 1.0, step="\u00b2"))
    texts = line("x\x1b]52;c;QUFB\x07", 1.0, message="a\nnext: b\ud800\u202e", severity="error\x1b")
    Path(run.watched).write_text("".join(strange) + texts)
    [note] = read_watch_notes(run, None)
    assert (note.check, note.severity, note.message) == (UNNAMED, "error\\x1b", "a\\nnext: b\\ud800\\u202e")
    assert dumps(note)
