"""The finding about a script that uses Weights & Biases without an API key."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.runs.tracker_key import wandb_key
from remote.link.local import local_host
from remote.project.scan import scan_project
from remote.protocol.exits import ExitCode
from remote.protocol.findings import Finding
from tests.lab.payload import install_payload
from tests.pipeline.views import view_of

VARIABLES = ("WANDB_API_KEY", "WANDB_MODE", "WANDB_DISABLED", "NETRC")
HINT = "add WANDB_API_KEY to `secrets:`, or set env: {WANDB_MODE: offline}"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder of the user on the host, without a key."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def found(tmp_path: Path, code: str, *overrides: str) -> tuple[Finding, ...]:
    view = view_of(tmp_path / "project")
    (view.loaded.root / "train.py").write_text(code)
    python = replace(view.survey.interpreter, path=sys.executable)
    loaded = load_config("plain", view.loaded.root, overrides)
    view = replace(view, scan=scan_project(view.loaded.root), loaded=loaded)
    host = local_host(str(install_payload(tmp_path / "host")))
    try:
        return wandb_key(host, view.with_survey(replace(view.survey, interpreter=python))).findings
    finally:
        host.close()


INIT = "import wandb\nwandb.init()\n"
GUARDED = "import wandb\nif args.wandb:\n    wandb.init()\n"


@pytest.mark.parametrize(
    ("code", "severity", "line"),
    [
        (INIT, "error", "train.py:2"),
        ("from lightning.pytorch.loggers import WandbLogger\nWandbLogger()\n", "error", "train.py:2"),
        (GUARDED, "warning", "train.py:3"),
        (GUARDED + INIT, "error", "train.py:5"),
    ],
)
def test_a_script_without_a_key_is_an_error_unless_a_flag_guards_the_call(
    tmp_path: Path, code: str, severity: str, line: str
) -> None:
    [finding] = found(tmp_path, code)
    assert (finding.check, finding.severity.value, finding.where, finding.hint) == ("tracker", severity, line, HINT)
    assert finding.exit_code is ExitCode.ENVIRONMENT


@pytest.mark.parametrize(
    ("shell", "severities"),
    [("python train.py\n", ["warning"]), ("export WANDB_MODE=offline\npython train.py\n", []), ("make\n", [])],
)
def test_a_call_in_a_script_that_a_shell_script_starts_is_a_warning(
    tmp_path: Path, shell: str, severities: list[str]
) -> None:
    command = f"command={json.dumps(['bash', '-c', shell])}"
    assert [finding.severity.value for finding in found(tmp_path, INIT, command)] == severities


@pytest.mark.parametrize(
    "override",
    [
        "secrets=[WANDB_API_KEY]",
        "env.WANDB_MODE=offline",
        'env.WANDB_DISABLED="true"',
        "env.WANDB_BASE_URL=http://tracker.local",
    ],
)
def test_a_key_of_the_job_or_a_mode_without_a_key_is_enough(tmp_path: Path, override: str) -> None:
    assert found(tmp_path, INIT, override) == ()


def test_a_user_who_is_logged_in_on_the_host_needs_no_other_key(tmp_path: Path, home: Path) -> None:
    (home / ".netrc").write_text("machine git.local\n  login me\n  password x\n")
    assert len(found(tmp_path / "other", INIT)) == 1
    (home / ".netrc").write_text("machine api.wandb.ai\n  login user\n  password x\n")
    assert found(tmp_path / "own", INIT) == ()


def test_a_variable_of_the_user_on_the_host_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert found(tmp_path, INIT) == ()
