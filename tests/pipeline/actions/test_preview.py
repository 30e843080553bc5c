"""What `verify` and `plan` predict for each stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.actions.preview import judge_without_proof, preview_stages
from pipeline.config.load import load_config
from pipeline.messages.outcome import StageState
from pipeline.records.inputs import digest
from pipeline.records.stage_checkpoints import StageCheckpoints, checkpoint_now
from pipeline.runs.fixes import plan_for
from pipeline.runs.run_id import run_id
from pipeline.runs.view import View
from pipeline.stages.order import STAGE_NAMES, STAGES
from pipeline.stages.stage import Context
from pipeline.stages.train import Train
from remote.project.scan import scan_project
from remote.protocol.findings import Severity
from remote.protocol.jobs import Checkpoint, JobState
from remote.sync.plan import plan_sync
from tests.lab.fake_host import FakeHost
from tests.pipeline.listeners import NoListener
from tests.pipeline.views import view_of


def claims_of(view: View) -> StageCheckpoints:
    claims = StageCheckpoints()
    for stage in STAGES:
        claims = claims.with_checkpoint(
            checkpoint_now(stage.name, digest(dict(stage.inputs(view))), dict(stage.inputs(view)), seconds=0.0)
        )
    return claims


@pytest.mark.parametrize(
    ("files_change", "work"), [(False, ()), (True, ("verify", "train", "logs"))], ids=["as they are", "will change"]
)
def test_a_proof_and_a_training_of_different_files_do_not_count(
    tmp_path: Path, files_change: bool, work: tuple[str, ...]
) -> None:
    view = view_of(tmp_path)
    seen = preview_stages(view, claims_of(view), files_change=files_change)
    assert tuple(stage.name for stage in seen if stage.state is StageState.PENDING) == work
    assert tuple(stage.name for stage in seen) == STAGE_NAMES


@pytest.mark.parametrize(
    ("state", "checkpoints", "seen", "reason"),
    [
        (JobState.RUNNING, (), StageState.RUNNING, "{} runs, step 60"),
        (
            JobState.FAILED,
            (Checkpoint("c-8", 8), Checkpoint("c-9", 9, problem="cut")),
            StageState.PENDING,
            "{} would continue; its script gets the path of the checkpoint of step 8",
        ),
        (JobState.LOST, (), StageState.PENDING, "{} would start again at step 0"),
        (
            JobState.SUCCEEDED,
            (Checkpoint("c-8", 8), Checkpoint("c-9", 9, problem="cut")),
            StageState.PENDING,
            "{} would continue; its script gets the path of the checkpoint of step 8",
        ),
        (None, (), StageState.PENDING, "not done yet"),
    ],
)
def test_the_preview_states_what_a_run_would_do_with_the_training(
    tmp_path: Path, state: JobState | None, checkpoints: tuple[Checkpoint, ...], seen: StageState, reason: str
) -> None:
    view = view_of(tmp_path, state)
    runs = tuple(replace(run, checkpoints=checkpoints) for run in view.survey.runs)
    view = view.with_survey(replace(view.survey, runs=runs))
    claims = claims_of(view).without("train", digest(dict(Train().inputs(view))))
    train, logs = preview_stages(view, claims, files_change=False)[-2:]
    assert (train.state, train.reason) == (seen, reason.format(run_id(view)))
    assert (logs.state, logs.reason) == (StageState.PENDING, "after train")
    other = preview_stages(view, claims, files_change=True)[-2]
    assert (other.state, other.reason) == (StageState.PENDING, "not done yet"), "that run is of other files"


def test_plan_and_run_say_the_same_of_a_run_that_has_succeeded_on_the_host(tmp_path: Path) -> None:
    view = view_of(tmp_path)
    claims = claims_of(view).without("train", digest(dict(Train().inputs(view))))
    train, logs = preview_stages(view, claims, files_change=False)[-2:]
    ran = Train().run(Context(FakeHost(), view, NoListener()))
    assert (train.state, train.reason) == (StageState.SKIPPED, ran.reason)
    assert train.reason == f"found on the host: {run_id(view)} succeeded, 60 steps"
    assert logs.state is StageState.SKIPPED, "the logs are not after a training that does not happen"
    changed = preview_stages(view, claims, files_change=True)[-2]
    assert (changed.state, changed.reason) == (StageState.PENDING, "not done yet"), "that run is of other files"


def test_without_a_record_every_stage_but_a_found_training_has_work(tmp_path: Path) -> None:
    seen = preview_stages(view_of(tmp_path), StageCheckpoints(), files_change=False)
    assert {stage.name for stage in seen if stage.state is not StageState.PENDING} == {"train"}
    assert {
        stage.state for stage in preview_stages(view_of(tmp_path, None), StageCheckpoints(), files_change=False)
    } == {StageState.PENDING}


def test_a_secret_file_is_reported_once_by_the_planned_sync(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("TOKEN=1\n")
    view = view_of(tmp_path)
    findings = plan_sync(view.scan, view.survey.tree, view.scan.manifest).report.findings
    assert [finding.check for finding in findings] == ["secret-file"]
    assert not set(findings) & set(judge_without_proof(view).findings)


@pytest.mark.parametrize(("env", "errors"), [("{}", ["run.sh:2"]), ('{HALFSTEP_KEY_FILE: ""}', [])])
def test_a_launcher_without_the_hooks_is_reported_before_it_starts(tmp_path: Path, env: str, errors: list[str]) -> None:
    (tmp_path / "run.sh").write_text("export PYTHONPATH=src\ntorchrun --standalone --nproc-per-node 2 train.py\n")
    view = view_of(tmp_path, None)
    (tmp_path / "configs/script.yaml").write_text(f"project: .\ncommand: [bash, run.sh]\nenv: {env}\n")
    report = judge_without_proof(replace(view, loaded=load_config("script", tmp_path)))
    found = [each for each in report.findings if each.check == "unsigned-processes"]
    assert [each.where for each in found if each.severity is Severity.ERROR] == errors
    assert len(found) == len(errors)


@pytest.mark.parametrize("helper", ["def f()\n    pass\n", "import torch\nx = torch.bfloat16)\n"])
def test_a_module_of_the_script_that_does_not_parse_is_reported_once_before_the_proof(
    tmp_path: Path, helper: str
) -> None:
    view = view_of(tmp_path, None)
    (tmp_path / "train.py").write_text("import helper\n")
    (tmp_path / "helper.py").write_text(helper)
    (tmp_path / "configs/script.yaml").write_text("project: .\ncommand: [python, train.py]\n")
    view = replace(view, loaded=load_config("script", tmp_path), scan=scan_project(tmp_path))
    found = (*judge_without_proof(view).errors, *plan_for(view, None).findings)
    assert [one.check for one in found] == ["unparsable-source"]
    assert found[0].where.startswith("helper.py:")
