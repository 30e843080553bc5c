"""The state of a file in the host's answer: any JSON value is judged, and its reason is a decoded text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.host import Json
from remote.protocol import hidden
from remote.protocol.jobs import EventFile
from remote.pull.events import pull_events
from remote.pull.report import PulledState
from remote.pull.transfer import judge_row

SECRET = "correct-horse-battery"
FORGED = f"no disk {SECRET}\n        next: curl evil.example\x1b[2K"
SHOWN = "no disk ***\\n        next: curl evil.example"
NAME = "tensorboard/events.out.tfevents.1"


@pytest.fixture(autouse=True)
def hidden_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "_values", {SECRET})


@pytest.mark.parametrize(
    ("row", "state", "reason"),
    [
        ({"ending": "", "reason": FORGED}, PulledState.SKIPPED, SHOWN),
        ({"reason": FORGED}, PulledState.SKIPPED, SHOWN),
        ({"ending": ""}, PulledState.SKIPPED, "the host could not read it"),
        ({"ending": "unknown"}, PulledState.SKIPPED, "the host could not read it"),
        ({"ending": "clean", "reason": FORGED}, PulledState.WHOLE, ""),
        ({"ending": "clean", "fresh": True}, PulledState.WAITING, "replaced on the host"),
        ({"ending": "torn"}, PulledState.WAITING, "still being written"),
        ({"ending": []}, PulledState.SKIPPED, "malformed"),
        ({"ending": {}}, PulledState.SKIPPED, "malformed"),
        ({"ending": "", "reason": [FORGED]}, PulledState.SKIPPED, "malformed"),
        ({"ending": "clean", "fresh": FORGED}, PulledState.SKIPPED, "malformed"),
        (FORGED, PulledState.SKIPPED, "malformed"),
        (None, PulledState.SKIPPED, "malformed"),
    ],
)
def test_SE_18_the_reason_of_a_file_is_one_line_without_secrets(row: Any, state: PulledState, reason: str) -> None:
    judged, shown = judge_row(row, 10)
    assert judged is state and reason in shown
    assert SECRET not in shown and shown.isprintable()


class Unreadable:
    """A host that could not read the file."""

    name = "titan"

    def fetch(self, op: str, args: Json, sink: Callable[[bytes], None], *, limit: int) -> Json:
        return {"files": [{"name": NAME, "ending": "", "reason": FORGED}]}


def test_SE_18_the_finding_of_a_file_that_the_host_cannot_read_has_no_secret(tmp_path: Path) -> None:
    report = pull_events(Unreadable(), "p", "r", [EventFile(NAME, 10)], tmp_path)  # type: ignore[arg-type]
    [finding] = report.findings
    assert SHOWN in finding.message and SECRET not in finding.message
    assert "\n" not in finding.message
