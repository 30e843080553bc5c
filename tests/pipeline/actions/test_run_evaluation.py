"""What `evaluate RUN` and `merge RUN` check before they connect to the run's host."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.actions.merge import merge_run
from pipeline.actions.run_evaluation import evaluate_run
from pipeline.actions.trained_run import require_adapter
from pipeline.records.find_run import named_run
from pipeline.records.layout import Records
from pipeline.records.runs import RunNote, write_start
from remote.errors import BadUsage, HalfstepError, RemoteFault, SecretsUntrusted
from remote.protocol.jobs import JobState, RunSurvey
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


STARTS: list[Callable[[], object]] = [
    lambda: evaluate_run(None, (), NoListener(), prompter=None),
    lambda: merge_run(None, NoListener(), dequantize=False, prompter=None),
]


@pytest.mark.parametrize("start", STARTS, ids=["evaluate", "merge"])
def test_secrets_that_the_project_requests_are_not_sent_unconfirmed(
    project: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[], object]
) -> None:
    monkeypatch.setenv("MINE", "value")
    (project / "configs" / "mine.yaml").write_text(CONFIG + "secrets: [MINE]\n")
    with pytest.raises(SecretsUntrusted, match="nothing was sent"):
        start()


@pytest.mark.parametrize("start", STARTS, ids=["evaluate", "merge"])
def test_secrets_that_the_user_typed_at_the_start_of_the_run_need_no_confirmation(
    project: Path, monkeypatch: pytest.MonkeyPatch, start: Callable[[], object]
) -> None:
    monkeypatch.delenv("MINE", raising=False)
    note = RunNote("mine-2", "local", "mine", "key", 2.0, {"host": "local"}, given=("--set", "secrets=[MINE]"))
    write_start(Records(project), note)
    with pytest.raises(HalfstepError, match="MINE") as caught:
        start()
    assert not isinstance(caught.value, SecretsUntrusted)


def test_only_settings_of_the_evaluation_can_be_set(project: Path) -> None:
    with pytest.raises(BadUsage, match=r"only evaluation\.KEY can be set"):
        evaluate_run(None, ("train.epochs=3",), NoListener(), prompter=None)


@pytest.mark.parametrize(
    ("state", "words", "hint"),
    [
        (JobState.SUCCEEDED, "its training succeeded, but saved none", "pipeline pull mine-1 --weights"),
        (JobState.FAILED, "state of its training: failed", "pipeline run --host local --resume mine-1"),
    ],
)
def test_a_run_without_an_adapter_names_a_command_that_helps(
    project: Path, state: JobState, words: str, hint: str
) -> None:
    note, _ = named_run("mine-1", project)
    with pytest.raises(RemoteFault, match=words) as caught:
        require_adapter(note, RunSurvey("mine-1", "mine", "f", 1, state))
    assert caught.value.hint.startswith(hint)
