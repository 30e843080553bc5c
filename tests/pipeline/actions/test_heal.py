"""A cure is reported as healed only if the same failure did not happen again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pipeline.actions import heal
from pipeline.stages.runner import RunResult
from pipeline.stages.stage import Context
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import view_of

OOM = Finding.error("cuda-oom", "the card has no free memory for 3 bytes.", exit_code=ExitCode.GPU)


@pytest.mark.parametrize(
    ("after", "checks", "ending"),
    [
        ((), ["healed"], "for 3 bytes; "),
        ((OOM,), ["not-healed", "cuda-oom"], ", which did not help"),
    ],
)
def test_a_cure_after_which_the_same_failure_happens_did_not_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: Sequence[Finding], checks: list[str], ending: str
) -> None:
    results = [RunResult(findings=[OOM], exit_code=ExitCode.GPU)]
    results += [RunResult(findings=list(after), exit_code=ExitCode.GPU if after else ExitCode.OK) for _ in range(2)]

    def run_stages(*_: Any) -> RunResult:
        return results.pop(0)

    cures = iter([heal.next_cure([], [OOM], {}, frozenset()), None])
    monkeypatch.setattr(heal, "run_stages", run_stages)
    monkeypatch.setattr(heal, "cure_for", lambda *_: next(cures))
    ran = heal.run_and_heal(Context(FakeHost(), view_of(tmp_path), NoListener()), (), tmp_path / "record")
    assert [finding.check for finding in ran.findings] == checks
    assert ending in ran.findings[0].message and ".;" not in ran.findings[0].message
