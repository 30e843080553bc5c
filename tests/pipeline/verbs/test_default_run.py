"""Every verb that takes RUN uses, without RUN, the training that was started or resumed last."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeline.cli.commands import VERBS
from pipeline.cli.main import run
from pipeline.records.find_run import find_note
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_start
from pipeline.runs.start import note_of_evaluation
from tests.lab.sshd import nobody_listens

RESUMED, CREATED_LATER = "plain-0011aabb", "plain-0022ccdd"
EVALUATION = "evaluate-plain-0033eeff"
TAKING_RUN = {
    name
    for name, verb in VERBS.items()
    for one in verb.params
    if one.param_type_name == "argument" and "RUN" in (one.metavar or "")
}


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A project whose older run was resumed after the newer one was started, and evaluated. No host answers."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "plain.yaml").write_text("project: .\ncommand: [python, train.py]\n")
    (tmp_path / "train.py").touch()
    records = Records(tmp_path)
    with nobody_listens() as port:
        host = {"host": "127.0.0.1", "port": port}
        started = {
            name: RunNote(name, "titan", "plain", "key", at, host) for at, name in enumerate((RESUMED, CREATED_LATER))
        }
        for name in (RESUMED, CREATED_LATER, RESUMED):
            write_start(records, started[name])
        write_start(records, note_of_evaluation(find_note(records, RESUMED), EVALUATION, ()))
        yield


@pytest.fixture
def busy_port() -> Iterator[str]:
    """A port in use: TensorBoard is not started, and the error contains the command with the run."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        yield str(taken.getsockname()[1])


def test_these_are_the_verbs_that_take_a_run() -> None:
    assert {
        "attach", "diagnose", "evaluate", "logs", "merge", "pull", "push", "report", "status", "stop", "tail",
        "tensorboard", "wait",
    } == TAKING_RUN  # fmt: skip


@pytest.mark.parametrize("verb", sorted(TAKING_RUN))
def test_without_RUN_the_verb_uses_the_run_that_was_resumed_last(
    verb: str, busy_port: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--port", busy_port] if verb == "tensorboard" else []
    run([verb, *more, "--json"])
    printed = capsys.readouterr().out
    answer = json.loads(printed.splitlines()[-1])
    assert answer.get("run", RESUMED) == RESUMED
    assert RESUMED in printed, printed
    assert CREATED_LATER not in printed and EVALUATION not in printed, printed
