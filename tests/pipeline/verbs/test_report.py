"""`report` writes a page of one run or a comparison of several, from local data."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.records.last_seen import note_job
from pipeline.records.layout import Records
from pipeline.records.run_inputs import RunInputs, write_inputs
from pipeline.records.runs import RunNote, write_note
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from remote.protocol.jobs import JobState, Progress


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with three runs, the first two of which have reports."""
    monkeypatch.chdir(tmp_path)
    records = Records(tmp_path)
    for number, rate in enumerate((1e-4, 2e-4, 3e-4), start=1):
        name = f"tiny-{number}"
        write_note(records, RunNote(name, "titan", "tiny", "key", created_unix=float(number), start=number))
        folder = records.folder_named(name)
        write_inputs(
            folder, RunInputs({"a.py": str(number) * 64}, {"train": {"learning_rate": rate}}, command="train.sh")
        )
        if number < 3:
            save_report(folder, RunReport(name, "tiny", "titan", Verdict.RUNNING, step=1, began_unix=100.0))
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], *words: str, exit_code: int = 0) -> dict[str, object]:
    assert run(["report", *words, "--json"]) == exit_code
    return json.loads(capsys.readouterr().out)


def test_two_runs_are_compared_on_a_page_of_their_own(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = shown(capsys, "tiny-1", "tiny-2")
    page = project / ".halfstep/compared/tiny-1+tiny-2.html"
    assert (answer["artifacts"], answer["compared"]) == ({"comparison": str(page)}, ["tiny-1", "tiny-2"])
    words = page.read_text()
    assert "train.learning_rate" in words and "11111111" in words and "22222222" in words


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("tiny-1", "tiny-1"), "expected 2 to 6 different runs to compare, got the same run twice"),
        (("tiny-1", "tiny-3"), "tiny-3 has no report yet"),
        (("tiny-1", "nothing"), "this project has no run 'nothing'"),
        (("tiny-9", "nothing"), "this project has no run 'tiny-9'; this project has no run 'nothing'"),
    ],
)
def test_runs_that_cannot_be_compared_are_named(
    project: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    answer = shown(capsys, *words, exit_code=2)
    assert answer["findings"][0]["message"] == message
    assert not (project / ".halfstep/compared").exists()


def test_the_page_shows_the_state_and_the_loss_that_list_shows(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report was saved while the run was training; `status` has seen its end since."""
    folder = Records(project).folder_named("tiny-2")
    note_job(folder, JobState.SUCCEEDED, Progress(60, 60, loss=1.23456, best_loss=1.2), elapsed_s=75.0)
    page = Path(str(shown(capsys, "tiny-2")["artifacts"]["report"])).read_text()
    assert (
        "trained</span></h1>" in page and "60 of 60 optimizer steps" in page and "in 1\u00a0min\u00a015\u00a0s" in page
    )
    assert "<dd>1.235<small>mean of the last 10 steps; lowest 1.2</small></dd>" in page
    run(["list"])
    assert "1.235  1.2" in capsys.readouterr().out
    run(["report", "tiny-2"])
    assert "train.sh" in page


def test_the_state_of_an_ended_run_has_no_age(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note_job(Records(project).folder_named("tiny-2"), JobState.SUCCEEDED, Progress(60, 60))
    job = shown(capsys, "tiny-2")["job"]
    assert isinstance(job, dict) and job["state"] == "succeeded" and "age_s" not in job


def test_the_end_of_the_log_has_no_secrets_and_no_redrawn_lines(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Records(project).folder_named("tiny-1")
    log = folder / "jobs/1/output.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(
        b"".join(b"line %d\n" % n for n in range(100)) + b" 1%|\r99%|\rkey=correct-horse hf_" + b"a" * 20 + b"\n\xff"
    )
    save_report(folder, RunReport("tiny-1", "tiny", "titan", Verdict.FAILED, secrets=("MY_KEY",)))
    monkeypatch.setenv("MY_KEY", "correct-horse")
    page = Path(str(shown(capsys, "tiny-1")["artifacts"]["report"])).read_text()
    assert "key=*** ***" in page and "<details open><summary>40 lines" in page
    assert "correct-horse" not in page and "99%" not in page and "line 61" not in page and "line 62" in page


def test_open_uses_the_browser_that_the_user_names(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = project / "opened"
    browser = project / "browser.sh"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.part && mv {opened}.part {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(browser))
    assert run(["report", "tiny-1", "--open"]) == 0
    deadline = time.monotonic() + 10
    while not opened.exists() and time.monotonic() < deadline:
        os.sched_yield()
    assert opened.read_text().strip() == (project / ".halfstep/runs/tiny-1/report.html").as_uri()
    assert "no browser" not in capsys.readouterr().out


def test_open_prints_the_path_if_there_is_no_browser(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    assert run(["report", "tiny-1", "--open"]) == 0
    page = project / ".halfstep/runs/tiny-1/report.html"
    assert f"no browser was found; open {page}" in capsys.readouterr().out
