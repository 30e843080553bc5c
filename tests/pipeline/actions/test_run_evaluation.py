"""What `evaluate RUN` checks before it connects to the run's host."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.actions.run_evaluation import evaluate_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_start
from remote.errors import BadUsage, SecretsUntrusted
from tests.pipeline.listeners import NoListener

CONFIG = "model: {id: tiny/phi4-multimodal}\ndata: {dataset: tiny-speech}\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a recorded training, in the working folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    root = tmp_path / "project"
    (root / "configs").mkdir(parents=True)
    (root / "configs" / "mine.yaml").write_text(CONFIG)
    monkeypatch.chdir(root)
    host = {"host": "local"}
    write_start(Records(root), RunNote("mine-1", "local", "mine", "key", 1.0, host, given=("--host", "local")))
    return root


def test_secrets_that_the_project_requests_are_not_sent_unconfirmed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "value")
    (project / "configs" / "mine.yaml").write_text(CONFIG + "secrets: [MINE]\n")
    with pytest.raises(SecretsUntrusted, match="nothing was sent"):
        evaluate_run(None, (), NoListener(), prompter=None)


def test_only_settings_of_the_evaluation_can_be_set(project: Path) -> None:
    with pytest.raises(BadUsage, match=r"only evaluation\.KEY can be set"):
        evaluate_run(None, ("train.epochs=3",), NoListener(), prompter=None)
