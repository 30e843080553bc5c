"""The message about a new run: which of its inputs differ from those of the last run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.config.load import load_config
from pipeline.records.find_run import find_note
from pipeline.records.run_inputs import RunInputs, write_inputs
from pipeline.records.runs import write_start
from pipeline.records.stage_checkpoints import StageCheckpoints, checkpoint_now, write_checkpoints
from pipeline.runs.new_run import SHOWN, describe_new_run, inputs_of
from pipeline.runs.run_id import run_id
from pipeline.runs.start import note_of, note_of_evaluation
from pipeline.runs.view import View
from remote.protocol.jobs import Checkpoint, JobState
from tests.pipeline.views import view_of


def started(view: View, inputs: RunInputs | None = None) -> str:
    """Record that the view's run was started, and return its name."""
    run = run_id(view)
    write_start(view.records, note_of(view, run))
    write_inputs(view.records.run(run, view.host.name), inputs or inputs_of(view))
    return run


def test_the_first_run_of_a_config_is_compared_with_nothing(tmp_path: Path) -> None:
    assert describe_new_run(view_of(tmp_path, None)) == ()


def test_files_settings_and_machine_that_differ_are_named(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    now = inputs_of(view)
    files = {"train.py": "0" * 64, "old.py": "1" * 64}
    before = replace(now, files=files, others={**now.others, "driver": "550.1"})
    name = started(view, before)
    changed = replace(view, loaded=load_config("plain", tmp_path, ["train.learning_rate=1e-5", "grace_s=5"]))
    assert describe_new_run(changed, "plain-1") == (
        f"a new run plain-1, because these inputs differ from {name}:",
        "  old.py (deleted)",
        "  train.py (changed)",
        "  train.learning_rate: 2e-05 -> 1e-05",
        "  driver: 550.1 -> none",
    )


def test_the_run_that_was_found_on_the_host_is_compared_and_values_are_yaml(tmp_path: Path) -> None:
    """The other run was started later, but the last command found this one."""
    view = view_of(tmp_path, JobState.SUCCEEDED)
    found = started(view)
    other = replace(view, loaded=load_config("plain", tmp_path, ["train.learning_rate=1e-5"]))
    started(other)
    record = view.records.checkpoints(view.host.name, view.loaded.record)
    write_checkpoints(
        record, StageCheckpoints().with_checkpoint(checkpoint_now("train", "f", {"run": run_id(view)}, seconds=1.0))
    )
    changed = replace(view, loaded=load_config("plain", tmp_path, ['env.X="3"']))
    first, *lines = describe_new_run(changed, "plain-1")
    assert (first, lines) == (
        f"a new run plain-1, because these inputs differ from {found}:",
        ["  env.X: null -> 3"],
    )


def test_many_differences_are_counted_and_a_finished_run_is_not_offered(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.SUCCEEDED)
    started(view, replace(inputs_of(view), files={f"{number}.py": "0" * 64 for number in range(9)}))
    lines = describe_new_run(view, "plain-1")
    assert len(lines) == 1 + SHOWN + 1
    assert lines[-1] == "  and 5 more"


def test_an_evaluation_or_merge_after_the_training_is_not_compared(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.SUCCEEDED)
    name = started(view, replace(inputs_of(view), files={"train.py": "0" * 64}))
    training = find_note(view.records, name)
    write_start(view.records, note_of_evaluation(training, f"merge-{name}", training.given, "merge"))
    first, *_ = describe_new_run(view, "plain-1")
    assert first == f"a new run plain-1, because these inputs differ from {name}:"


def test_a_run_of_another_host_is_not_compared(tmp_path: Path) -> None:
    view = view_of(tmp_path, None)
    started(replace(view, host=replace(view.host, name="other")), RunInputs({"train.py": "0" * 64}))
    assert describe_new_run(view) == ()


def test_a_run_that_still_trains_is_not_offered_to_be_resumed(tmp_path: Path) -> None:
    view = view_of(tmp_path, JobState.RUNNING)
    name = started(view, replace(inputs_of(view), files={"train.py": "0" * 64}))
    lines = describe_new_run(view, "plain-1")
    assert lines[-1] == f"{name} is still running; to follow it: pipeline attach {name}"
    assert not any("--resume" in line for line in lines)


@pytest.mark.parametrize(
    ("problem", "offered"), [("", True), ("cut", False), (None, False)], ids=["whole", "broken", "no checkpoint"]
)
def test_a_run_is_offered_to_be_continued_only_from_a_verified_checkpoint(
    tmp_path: Path, problem: str | None, offered: bool
) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    name = started(view, replace(inputs_of(view), files={"train.py": "0" * 64}))
    kept = () if problem is None else (Checkpoint("checkpoint-6", 6, problem=problem),)
    runs = tuple(replace(run, checkpoints=kept) for run in view.survey.runs)
    lines = describe_new_run(replace(view, survey=replace(view.survey, runs=runs)), "plain-1")
    assert (f"to continue {name} instead: pipeline run --resume {name}" in lines) is offered


@pytest.mark.parametrize(
    ("before", "now", "shown"),
    [
        ("short", "other", "short -> other"),
        (
            f"{'a' * 80} --epochs=3 --seed=1",
            f"{'a' * 80} --epochs=30 --seed=1",
            f"...{'a' * 9} --epochs=3 --seed=1 -> ...{'a' * 9} --epochs=30 --seed=1",
        ),
        (f"train.py {'x' * 90}", f"eval.py {'x' * 90}", f"train.py {'x' * 51}... -> eval.py {'x' * 52}..."),
        (f"{'b' * 70}", f"{'b' * 71}", f"...{'b' * 20} -> ...{'b' * 21}"),
    ],
    ids=["short texts", "a late difference", "an early difference", "only the length"],
)
def test_long_values_are_shown_where_they_differ(tmp_path: Path, before: str, now: str, shown: str) -> None:
    view = view_of(tmp_path, JobState.FAILED)
    inputs = inputs_of(view)
    started(view, replace(inputs, settings={**inputs.settings, "env": {"X": before}}))
    changed = replace(view, loaded=load_config("plain", tmp_path, [f'env.X="{now}"']))
    assert f"  env.X: {shown}" in describe_new_run(changed, "plain-1")
