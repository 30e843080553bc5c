"""Verbs about a run whose host does not answer: an immediate error with the run's name, and local data."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.cli.main import run
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_note
from pipeline.report.model import RunReport, Verdict
from pipeline.report.saved import save_report
from remote.protocol.jobs import JobState
from remote.pull.folder import Folder
from remote.pull.mirror import Mirror
from tests.lab.sshd import nobody_listens
from tests.remote.pull.event_records import point

RUN = "plain-0123abcd"
UNSCALE = (
    "loading\nTraceback (most recent call last):\n"
    '  File "train.py", line 9, in <module>\nValueError: Attempting to unscale FP16 gradients.\n'
)
Types = Callable[..., tuple[int, dict[str, object], str]]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    """A project with one failed run, on a host that does not answer."""
    monkeypatch.chdir(tmp_path)
    known = Records(tmp_path)
    with nobody_listens() as port:
        nobody = {"host": "127.0.0.1", "port": port}
        write_note(known, RunNote(RUN, "titan", "plain", "p-1", 1.0, nobody, JobState.FAILED, seen_unix=2.0))
        yield known


@pytest.fixture
def types(records: Records, capsys: pytest.CaptureFixture[str]) -> Types:
    def typed(*words: str) -> tuple[int, dict[str, object], str]:
        code = run([*words, "--json"])
        captured = capsys.readouterr()
        *scalars, answer = map(json.loads, captured.out.splitlines())
        return code, {**answer, **({"scalars": scalars} if words[0] == "tail" else {})}, captured.err

    return typed


@pytest.mark.parametrize(
    "verb", [("pull",), ("stop",), ("wait",), ("attach",), ("logs",), ("logs", "-f"), ("diagnose",)]
)
def test_the_object_names_host_config_and_run(types: Types, verb: tuple[str, ...]) -> None:
    code, answer, _ = types(*verb)
    assert code == 10
    assert (answer["command"], answer["host"], answer["config"], answer["run"]) == (verb[0], "titan", "plain", RUN)
    assert "refused" in json.dumps(answer["findings"])


@pytest.mark.parametrize(
    ("words", "lines"),
    [((), UNSCALE.splitlines()), (("--tail", "1"), UNSCALE.splitlines()[-1:]), (("-f",), UNSCALE.splitlines())],
)
def test_logs_shows_the_local_output_and_its_age(
    types: Types, records: Records, words: tuple[str, ...], lines: list[str]
) -> None:
    bring_home(records, UNSCALE)
    code, answer, _ = types("logs", *words)
    assert (code, answer["lines"]) == (10, lines)
    [finding] = answer["findings"]
    assert finding["check"] == "unreachable"
    assert "jobs/2/output.log as pulled" in finding["message"]
    assert " ago" in finding["message"]


def test_diagnose_reads_the_local_output(types: Types, records: Records) -> None:
    bring_home(records, UNSCALE)
    code, answer, _ = types("diagnose", RUN)
    assert code == 40, "what the log says counts for more than where it was read"
    assert [finding["check"] for finding in answer["findings"]] == ["fp16-unscale", "unreachable"]
    assert answer["findings"][0]["where"] == f"train.py:9 in <module>; output of {RUN}, line 4"
    assert (answer["host"], answer["config"], answer["run"]) == ("titan", "plain", RUN)


def test_tail_shows_the_local_scalars_and_ends_at_once(types: Types, records: Records) -> None:
    name = "tensorboard/events.out.tfevents.1"
    with Folder(records.run(RUN, "titan")) as folder:
        Mirror(folder).append(name, 0, point(1, 4.0), fresh=False)
    code, answer, _ = types("tail")
    assert code == 10
    assert answer["scalars"] == [{"step": 1, "tag": "loss", "value": 4.0}]
    [finding] = answer["findings"]
    assert (finding["check"], "local scalars are shown" in finding["message"]) == ("unreachable", True)


@pytest.mark.parametrize(("state", "aged"), [(JobState.RUNNING, True), (JobState.FAILED, False)])
def test_the_report_of_a_job_that_may_be_running_has_the_age_of_its_state(
    types: Types, records: Records, state: JobState, aged: bool
) -> None:
    folder = records.run(RUN, "titan")
    bring_home(records, "the output\n")
    write_note(records, replace(find_note(records, RUN), state=state))
    save_report(folder, RunReport(RUN, "plain", "titan", Verdict.RUNNING, step=1, began_unix=1.0))
    code, answer, _ = types("report")
    job = answer["job"]
    assert isinstance(job, dict)
    assert (code, [finding["check"] for finding in answer["findings"]]) == (0, ["unreachable"] if aged else [])
    assert job.get("age_s", 0) > 1000 if aged else "age_s" not in job


def bring_home(records: Records, text: str) -> None:
    """Store the outputs of two jobs locally, the newer with this text."""
    for number, output in ((1, "an older job\n"), (2, text)):
        path = records.run(RUN, "titan") / "jobs" / str(number) / "output.log"
        path.parent.mkdir(parents=True)
        path.write_text(output)
    os.utime(path, (1_700_000_000, 1_700_000_000))
