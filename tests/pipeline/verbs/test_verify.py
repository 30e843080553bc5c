"""`pipeline verify`: what is not checked comes with a command that checks it, unless errors come first."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from pipeline.cli.main import run


@pytest.mark.parametrize(
    ("overrides", "reason", "has_hint"),
    [([], "--no-proof was given", True), (["host.gpus=[63]"], "the errors must be fixed first", False)],
)
def test_the_hint_for_a_skipped_proof_runs_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    overrides: list[str],
    reason: str,
    has_hint: bool,
) -> None:
    project = tmp_path / "project"
    (project / "configs").mkdir(parents=True)
    (project / "train.py").write_text("print('training')\n")
    (project / "configs" / "plain.yaml").write_text("command: [python, train.py]\n")
    monkeypatch.chdir(project)
    keys = [f"host.workdir={tmp_path}/there", *overrides]
    typed = ["--host", "local", "--config", "plain", *(word for key in keys for word in ("--set", key))]
    run(["verify", *typed, "--no-proof", "--json"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    (proof,) = [finding for finding in findings if finding["check"] == "proof"]
    again = shlex.join(["pipeline", "verify", *typed]) if has_hint else ""
    assert (proof["message"], proof["hint"]) == (f"not checked: {reason}", again)
